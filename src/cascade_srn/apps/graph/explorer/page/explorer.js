/* The explorer: keeps the state, asks the server for what it needs, and shows it. */

import { Canvas } from "../../../web/shared/canvas.js";
import { addControls } from "../../../web/shared/canvas_keys.js";
import { byId, createHtml, formatCount, isNarrow, saveFile } from "../../../web/shared/dom.js";
import { Labels, toSchema } from "../../../web/shared/labels.js";
import {
  askForKey,
  clearNotice,
  createAttempt,
  offerRetry,
  showBusy,
  showNotice,
} from "../../../web/shared/notices.js";
import { createPng, createSvgFile } from "../../../web/shared/picture.js";
import { Service } from "../../../web/shared/service.js";
import { addTabs } from "../../../web/shared/tabs.js";
import { latestOnly } from "../../../web/shared/timing.js";
import { createNodeButton, showNode } from "./details.js";
import { showEvidence } from "./evidence.js";
import { createFilters } from "./filters.js";
import { showCommunities, showPaths } from "./paths.js";
import { createSearch } from "./search.js";
import { formatState, NO_FILTERS, readState } from "./state.js";
import { rankingParameters, showEdges, showRanking, showRankingForm } from "./tables.js";

const [EVIDENCE_PAGE, RANKING_PAGE, CSV_ROWS] = [10, 25, 1000];
const NOTHING = { centres: [], nodes: [], edges: [] };

const service = new Service({ onWait: () => showNotice("waiting", "The server is busy. Retrying.") });
const fetchJson = async (path, parameters, signal = undefined) =>
  (await service.request(`api/${path}`, { parameters, signal })).json();

let overview = null;
let labels = new Labels();
let state = readState(location.hash);
let view = NOTHING;
let nRanked = RANKING_PAGE;
// Whether the user has changed the view since the page was opened.
let hasMoved = false;
// What the shown neighbourhood was asked with.
let shownQuery = "";

/** Change the state and the address, and show the result. */
function update(changes, { replaces = false } = {}) {
  state = { ...state, ...changes };
  hasMoved = true;
  const address = formatState(state) || location.pathname + location.search;
  if (replaces) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  attempt(refresh);
}

const onSelect = (node) =>
  update({ nodes: addTo(state.nodes, node), selected: node, edge: null, view: viewWithGraph() });
const onEdge = (edge) => update({ edge, selected: null });
const onClose = () => {
  update({ selected: null, edge: null });
  byId(`tab-${state.view}`).focus();
};
const addTo = (nodes, node) => (nodes.includes(node) ? nodes : [...nodes, node]);
const viewWithGraph = () => (["graph", "table"].includes(state.view) ? state.view : "graph");
/** Show nodes as a graph, all of them expanded. */
const onShow = (nodes) =>
  update({ nodes: nodes.map(({ node }) => node), selected: null, edge: null, view: "graph" });

const canvas = new Canvas(byId("canvas"), { onNode: onSelect, onEdge, onNothing: () => hasSelection() && onClose() });
addControls(canvas, onSelect);
// Made when it is first shown.
let overviewCanvas = null;
const hasSelection = () => state.selected !== null || state.edge !== null;

const filters = createFilters({ onChange: (changes) => update(changes) });
createSearch({
  find: async (q, signal) => (await fetchJson("search", { q }, signal)).nodes,
  labels: () => labels,
  // A search starts a new view.
  onChoose: (node) => update({ nodes: [node], selected: node, edge: null, view: viewWithGraph(), rankingBy: null }),
  onError: (error) => showError(error, () => {}),
});
const showTab = addTabs(byId("tabs"), (panel) => {
  const name = panel.replace("view-", "");
  if (name !== state.view) update({ view: name });
});

/** Show the state: load the neighbourhood if it has changed, then the ranking and the selected node or edge. */
const refresh = latestOnly(async (signal) => {
  showBusy(true);
  await loadOverview(signal);
  filters.show(state.filters, state.limit);
  showTab(byId(`tab-${state.view}`));
  await loadView(signal);
  if (state.view === "ranking") await loadRanking(signal);
  if (state.view === "path") await loadPaths(signal);
  if (state.view === "overview") await loadCommunities(signal);
  await loadCard(signal);
  clearNotice();
  showBusy(false);
});

async function loadOverview(signal) {
  if (overview) return;
  overview = await fetchJson("overview", {}, signal);
  const { types, relations, n_nodes: nNodes, n_edges: nEdges } = overview;
  labels = new Labels(toSchema(types, relations));
  filters.describe(overview, labels);
  byId("graph-size").textContent = `${overview.name}: ${describeSize(nNodes, nEdges)}`;
  byId("graph-size").hidden = false;
  const start = (node) => update({ nodes: [node], selected: node, edge: null });
  const rows = types.map(({ label }) => {
    const nodes = overview.best.filter((node) => node.label === label);
    return createHtml("li", {}, createHtml("span", { class: "help" }, label),
      ...nodes.map((node) => createNodeButton(node, labels, start)));
  });
  byId("best").replaceChildren(...rows);
}

async function loadView(signal) {
  const { nodes, filters: chosen, limit } = state;
  const query = JSON.stringify([nodes, chosen, limit]);
  if (query !== shownQuery) {
    const found = nodes.length ? await fetchJson("neighbourhood", { node: nodes, ...chosen, limit }, signal) : NOTHING;
    signal.throwIfAborted();
    [view, shownQuery] = [found, query];
    byId("empty").hidden = nodes.length > 0;
    byId("stage").hidden = nodes.length === 0;
    byId("n-edges").textContent = nodes.length ? view.edges.length : "";
    showEdges(byId("view-table"), view, { labels, onSelect, onEdge });
    canvas.show(view, labels);
  }
  byId("result").classList.toggle("filled", nodes.length > 0);
  byId("status").textContent = nodes.length ? summarize() : "";
  for (const id of ["get-png", "get-svg"]) byId(id).hidden = !nodes.length || !["graph", "table"].includes(state.view);
  byId("get-csv").hidden = (!nodes.length && state.view !== "ranking") || ["path", "overview"].includes(state.view);
  canvas.select(state.edge === null ? state.selected && `n:${state.selected}` : `e:${state.edge}`);
}

const describeSize = (nNodes, nEdges) =>
  `${formatCount(nNodes, "entity", "entities")}, ${formatCount(nEdges, "relation", "relations")}`;

function summarize() {
  const text = describeSize(view.nodes.length, view.edges.length);
  const hidden = view.centres.reduce((n, { n_edges: all, n_shown: shown }) => n + all - shown, 0);
  if (!hidden) return text;
  return `${text}. The best neighbours are shown; ${formatCount(hidden, "more relation", "more relations")} left.`;
}

/** Return the node that rankings refer to. */
const rankingNode = () => state.selected ?? state.nodes.at(-1) ?? null;
const ranking = () => ({ type: state.rankingType, by: state.rankingBy });

async function loadRanking(signal) {
  const node = rankingNode();
  const described = node && (await fetchJson("node", { node }, signal));
  showRankingForm(overview, described, ranking());
  const parameters = { ...rankingParameters(node, ranking(), state.filters), limit: nRanked };
  const found = await fetchJson("ranking", parameters, signal);
  signal.throwIfAborted();
  const onMore = () => {
    nRanked += 4 * RANKING_PAGE;
    attempt(refresh);
  };
  showRanking(byId("ranking"), found, { labels, onSelect, onEdge, onMore });
  byId("status").textContent = formatCount(found.total, "entity", "entities");
}

async function loadPaths(signal) {
  // By default, between the two entities that were expanded last.
  const [start, end] = state.start && state.end ? [state.start, state.end] : state.nodes.slice(-2);
  byId("path-start").value = start ?? "";
  byId("path-end").value = end ?? "";
  byId("status").textContent = "";
  if (!start || !end) {
    byId("paths").replaceChildren(createHtml("p", { class: "nothing" }, "Give the names of two entities."));
    return;
  }
  try {
    const { paths } = await fetchJson("path", { start, end, ...state.filters }, signal);
    signal.throwIfAborted();
    showPaths(byId("paths"), paths, { labels, onSelect, onEdge, onShow });
    byId("status").textContent = formatCount(paths.length, "path", "paths");
  } catch (error) {
    // A name that no entity has, or several.
    if (error.status !== 404 && error.status !== 422) throw error;
    byId("paths").replaceChildren(createHtml("p", { class: "nothing" }, error.message));
  }
}

async function loadCommunities(signal) {
  byId("status").textContent = "";
  if (overviewCanvas) return;
  const found = await fetchJson("communities", {}, signal);
  signal.throwIfAborted();
  overviewCanvas = new Canvas(byId("overview-canvas"), { onNode: onSelect, onEdge, onNothing: () => {} });
  overviewCanvas.show({ centres: [], ...found }, labels);
  showCommunities(byId("communities"), found, { labels, onSelect, onShow });
}

async function loadCard(signal) {
  const card = byId("card");
  const { selected, edge, filters: chosen } = state;
  if (edge !== null) {
    const { min_score, first_year, last_year } = chosen;
    const parameters = { edge, min_score, first_year, last_year, limit: EVIDENCE_PAGE };
    const onMore = (offset) => attempt(() => fetchJson("evidence", { ...parameters, offset }));
    const onCsv = () => attempt(() => saveCsv("evidence.csv", { ...parameters, limit: CSV_ROWS }));
    const onPage = (row) => attempt(() => loadPage(row));
    const found = await fetchJson("evidence", parameters, signal);
    signal.throwIfAborted();
    showEvidence(card, found, { labels, onSelect, onMore, onCsv, onPage, onClose });
  } else if (selected !== null) {
    const node = await fetchJson("node", { node: selected }, signal);
    signal.throwIfAborted();
    const onToggle = (id) => update({ nodes: toggle(state.nodes, id) });
    const onOnly = (id) => update({ nodes: [id] });
    const onMore = () => update({ limit: Math.min(200, 2 * state.limit) });
    showNode(card, node, view, { labels, onSelect, onEdge, onToggle, onOnly, onMore, onClose });
  }
  const key = edge === null ? selected : `edge ${edge}`;
  if (card.dataset.shows !== String(key)) card.scrollTop = 0;
  const isOpened = card.hidden && key !== null;
  card.dataset.shows = key;
  card.hidden = key === null;
  // In one column, the card is below the graph: show both.
  if (isOpened && hasMoved && isNarrow() && state.view === "graph") byId("stage").scrollIntoView({ block: "start" });
}

const toggle = (nodes, node) => (nodes.includes(node) ? nodes.filter((one) => one !== node) : [...nodes, node]);

const attempt = createAttempt(showError);

function showError(error, onRetry) {
  if (error.status === 401) askForKey(service, () => attempt(refresh));
  else if (error.status === 404 || error.status === 422) {
    // The link is of another graph, or its labels have changed.
    const restart = () => update({ nodes: [], filters: NO_FILTERS, selected: null, edge: null, rankingBy: null });
    offerRetry(error.message, restart, "Start again");
  } else offerRetry(error.message, onRetry);
}

async function saveCsv(path, parameters) {
  saveFile(await (await service.request(`api/${path}`, { parameters })).blob(), path);
}

/** Return the page of the PDF that a sentence is on: its address, number, and the place of the sentence. */
async function loadPage(row) {
  const names = ["sentence", "head", "tail"].flatMap((name) => [`${name}_start`, `${name}_end`]);
  const parameters = Object.fromEntries(["document", ...names].map((name) => [name, row[name]]));
  const answer = await service.request("api/page.png", { parameters });
  const address = URL.createObjectURL(await answer.blob());
  return { address, number: answer.headers.get("Page-Number"), top: Number(answer.headers.get("Page-Position")) };
}

const downloads = {
  "get-png": async () => saveFile(await createPng(canvas), "graph.png"),
  "get-svg": async () => saveFile(createSvgFile(canvas, document.title), "graph.svg"),
  "get-csv": () => {
    const { view: name, nodes, filters: chosen, limit } = state;
    if (name !== "ranking") return saveCsv("neighbourhood.csv", { node: nodes, ...chosen, limit });
    return saveCsv("ranking.csv", { ...rankingParameters(rankingNode(), ranking(), chosen), limit: CSV_ROWS });
  },
  "copy-link": async () => {
    await navigator.clipboard.writeText(location.href);
    byId("status").textContent = "The link to this view is copied.";
  },
};
for (const [id, job] of Object.entries(downloads)) byId(id).addEventListener("click", () => attempt(job));
byId("ranking-form").addEventListener("change", () => {
  nRanked = RANKING_PAGE;
  update({ rankingType: byId("ranking-type").value || null, rankingBy: byId("ranking-by").value || null });
});
byId("path-form").addEventListener("submit", (event) => {
  event.preventDefault();
  update({ start: byId("path-start").value.trim() || null, end: byId("path-end").value.trim() || null });
});
document.addEventListener("keydown", (event) => {
  const isTyping = /** @type {Element} */ (event.target).matches("input, select, textarea");
  if (event.key === "Escape" && hasSelection() && !isTyping) onClose();
  else if (event.key === "/" && !isTyping) {
    event.preventDefault();
    byId("search").focus();
  }
});
window.addEventListener("popstate", () => {
  state = readState(location.hash);
  attempt(refresh);
});
window.addEventListener("hashchange", () => {
  if (location.hash === formatState(state)) return;
  state = readState(location.hash);
  attempt(refresh);
});

attempt(refresh);
