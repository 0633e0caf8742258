// Types for the check by TypeScript. This file is not served.

interface Window {
  cytoscapeFcose: unknown;
}

// All elements of the pages are HTML or SVG elements.
interface Element extends HTMLOrSVGElement {}
