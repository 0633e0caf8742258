/* HTTP requests to the service, with its API key, errors and retries. */

// Number of attempts while the service is busy, and while its model is still loading.
const MAX_ATTEMPTS = { busy: 5, not_ready: 100 };
const MAX_DELAY = 10;

/** An error that the service returned, or a failure to reach it. */
class ServiceError extends Error {
  constructor(message, { status = 0, code = "unreachable", answer = null } = {}) {
    super(message);
    this.name = "ServiceError";
    this.status = status;
    this.code = code;
    // The whole answer, which may have more than the error.
    this.answer = answer;
  }

  /** Whether the text itself is invalid. */
  get isAboutText() {
    return [400, 413, 422].includes(this.status);
  }
}

/** The client of the service. `onWait(seconds, error)` is called before each retry. */
export class Service {
  // The key is only kept in memory.
  #key = "";

  constructor({ onWait = (_seconds, _error) => {} } = {}) {
    this.onWait = onWait;
  }

  setKey(key) {
    this.#key = key.trim();
  }

  get hasKey() {
    return this.#key !== "";
  }

  /** Return the labels, thresholds and limits of the service. */
  async fetchSchema(signal) {
    return (await this.#request("schema", { signal })).json();
  }

  /** Return a text as a document with entities and relations. */
  async extract(text, { thresholds, overlaps, signal }) {
    const body = thresholds ? { text, overlaps, thresholds } : { text, overlaps };
    const answer = await (await this.#request("extract", { body, signal })).json();
    return answer.documents[0];
  }

  /** Return the drawing of a document: an escaped HTML fragment, or a standalone SVG picture. */
  async draw(document, { format = "html", signal = undefined } = {}) {
    return (await this.#request("draw", { body: { document, format }, signal })).text();
  }

  /** Return the two files of brat standoff: {txt, ann}. */
  async convertToBrat(document) {
    return (await this.#request("convert", { body: { document } })).json();
  }

  /**
   * Send a request with a body: JSON or a file. Parameters that are lists are repeated, empty ones are left out.
   *
   * @param {string} path
   * @param {{parameters?: Object<string, any>, method?: string, body?: any, file?: File, signal?: AbortSignal}} options
   */
  async request(path, { parameters = {}, ...options } = {}) {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(parameters)) {
      for (const one of [value].flat()) if (one !== null && one !== undefined && one !== "") query.append(name, one);
    }
    return this.#request(query.size ? `${path}?${query}` : path, options);
  }

  async #request(path, { signal = undefined, ...message }) {
    for (let attempt = 1; ; attempt += 1) {
      const response = await this.#send(path, message, signal);
      if (response.ok) return response;
      const error = await readError(response);
      if (response.status !== 503 || attempt >= (MAX_ATTEMPTS[error.code] ?? MAX_ATTEMPTS.busy)) throw error;
      const seconds = retryDelay(response, attempt);
      this.onWait(seconds, error);
      await sleep(seconds, signal);
    }
  }

  async #send(path, { body = null, file = null, method = body === null ? "GET" : "POST" }, signal) {
    const headers = file || body === null ? {} : { "Content-Type": "application/json" };
    if (this.#key) headers.Authorization = `Bearer ${this.#key}`;
    /** @type {RequestInit} */
    const options = { method, signal, headers, credentials: "omit", cache: "no-store" };
    if (file || body !== null) options.body = file ?? JSON.stringify(body);
    try {
      return await fetch(new URL(path, document.baseURI), options);
    } catch (error) {
      if (signal?.aborted) throw error;
      throw new ServiceError("The server does not respond. Check that it is running and that you are connected.");
    }
  }
}

async function readError(response) {
  const answer = await response.json().catch(() => null);
  const { code = "error", message = "" } = answer?.error ?? {};
  const text = message ? toSentence(message) : `The server returned ${response.status} ${response.statusText}`.trim();
  return new ServiceError(text, { status: response.status, code, answer });
}

/** Capitalize an error message and add a period. */
function toSentence(message) {
  return `${message.charAt(0).toUpperCase()}${message.slice(1)}${/[.!?]$/u.test(message) ? "" : "."}`;
}

function retryDelay(response, attempt) {
  const requested = Number(response.headers.get("Retry-After"));
  return Math.min(MAX_DELAY, requested > 0 ? requested : 2 ** (attempt - 1));
}

function sleep(seconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, 1000 * seconds);
    const stop = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    if (signal?.aborted) stop();
    else signal?.addEventListener("abort", stop, { once: true });
  });
}
