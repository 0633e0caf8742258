/* Save the annotation of the open document. A change counts as saved only when the server has confirmed it. */

import { isSameContent } from "./content.js";

const RETRY_SECONDS = 4;

/**
 * Sends one request at a time, always with the latest content.
 *
 * `put(id, body)` returns the new version, or throws an error with `status` and `answer`. `onState(state, error)` gets
 * "saved", "saving", "failed" or "conflict". `onConflict(theirs)` gets the annotation that the server has.
 */
export class Saver {
  #id = null;
  #version = 0;
  #unsaved = null;
  #running = null;
  #timer = undefined;
  theirs = null;

  constructor({ put, onState, onConflict }) {
    this.put = put;
    this.onState = onState;
    this.onConflict = onConflict;
  }

  get isSaved() {
    return this.#unsaved === null;
  }

  /** Start with the stored version of a document. */
  open(id, version) {
    clearTimeout(this.#timer);
    [this.#id, this.#version, this.#unsaved, this.theirs] = [id, version, null, null];
    this.onState("saved");
  }

  save(content) {
    this.#unsaved = content;
    // A conflict is decided by the user.
    if (this.theirs) return;
    this.retry();
  }

  /** Send what is not saved. Resolves when the request, and those for changes in between, are over. */
  retry() {
    clearTimeout(this.#timer);
    if (this.isSaved) return Promise.resolve();
    this.#running ??= this.#send().finally(() => {
      this.#running = null;
    });
    return this.#running;
  }

  /** Save what is not saved. Returns whether everything is saved. */
  async flush() {
    if (!this.theirs) await this.retry();
    return this.isSaved;
  }

  /** Decide a conflict: overwrite the version of the server, or give up the own one. */
  keepMine() {
    this.#version = this.theirs.version;
    this.theirs = null;
    return this.retry();
  }

  async #send() {
    while (!this.isSaved) {
      const content = this.#unsaved;
      this.onState("saving");
      try {
        const { version } = await this.put(this.#id, { version: this.#version, ...content });
        this.#confirm(content, version);
      } catch (error) {
        const theirs = error.status === 409 ? error.answer?.annotation : null;
        // The answer to an earlier request was lost.
        if (theirs && isSameContent(theirs, content)) this.#confirm(content, theirs.version);
        else if (theirs) return this.#stop(theirs);
        else return this.#fail(error);
      }
    }
    return this.onState("saved");
  }

  #confirm(content, version) {
    this.#version = version;
    if (this.#unsaved === content) this.#unsaved = null;
  }

  #stop(theirs) {
    this.theirs = theirs;
    this.onState("conflict");
    this.onConflict(theirs);
  }

  #fail(error) {
    this.onState("failed", error);
    if (error.status === 0 || error.status >= 500) this.#timer = setTimeout(() => this.retry(), 1000 * RETRY_SECONDS);
  }
}
