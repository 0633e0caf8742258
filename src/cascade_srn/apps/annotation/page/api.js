/* Requests to the annotation server. */

import { Service } from "../../web/shared/service.js";

// The name of decisions between annotators.
export const ADJUDICATED = "adjudicated";

/**
 * The client of the annotation server. `annotator` is sent with all requests about annotations.
 *
 * If that is the name of decisions, `decider` is the person who makes them.
 */
export class Api {
  annotator = "";
  decider = "";

  constructor(options) {
    this.service = new Service(options);
  }

  async #json(path, options = {}) {
    return (await this.service.request(path, options)).json();
  }

  get #who() {
    return { annotator: this.annotator };
  }

  project() {
    return this.#json("api/project", { parameters: this.annotator ? this.#who : {} });
  }

  queue({ state, search, offset, limit, signal }) {
    return this.#json("api/queue", { parameters: { ...this.#who, state, search, offset, limit }, signal });
  }

  document(id, { annotator = this.annotator } = {}) {
    return this.#json(`api/documents/${encodeURIComponent(id)}`, { parameters: { annotator } });
  }

  save(id, body) {
    if (this.annotator === ADJUDICATED) return this.adjudicate(id, body);
    const path = `api/documents/${encodeURIComponent(id)}/annotation`;
    return this.#json(path, { method: "PUT", parameters: this.#who, body });
  }

  adjudicate(id, body) {
    const annotator = this.annotator === ADJUDICATED ? this.decider : this.annotator;
    const path = `api/documents/${encodeURIComponent(id)}/adjudication`;
    return this.#json(path, { method: "POST", parameters: { annotator }, body });
  }

  training() {
    return this.#json("api/training");
  }

  startTraining(raw) {
    return this.#json("api/training", { method: "POST", parameters: { raw }, body: {} });
  }

  cancelTraining() {
    return this.#json("api/training", { method: "DELETE" });
  }

  agreement(first, second) {
    return this.#json("api/agreement", { parameters: { first, second } });
  }

  /** Return the file with annotations, and its name as the server gives it. */
  async export(format, annotator) {
    const response = await this.service.request("api/export", { parameters: { format, annotator } });
    const given = /filename="([^"]+)"/u.exec(response.headers.get("Content-Disposition") ?? "");
    return { blob: await response.blob(), name: given?.[1] ?? `annotations.${format}` };
  }

  import(format, annotator, file) {
    return this.#json("api/import", { method: "POST", parameters: { format, annotator }, file });
  }
}
