declare const cytoscape: any;
export default cytoscape;
