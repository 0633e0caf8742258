/* The service behind the page: its requests, its errors, its key, and patience while it is busy. */

// How often a service is asked that has too much to do, and one whose model is still being loaded.
const ATTEMPTS = { busy: 5, not_ready: 100 };
const LONGEST_WAIT = 10;

/** Something the service refused, or could not be asked. */
export class ServiceError extends Error {
  constructor(message, { status = 0, code = "unreachable" } = {}) {
    super(message);
    this.name = "ServiceError";
    this.status = status;
    this.code = code;
  }

  /** Whether the text itself is what is wrong. */
  get ofText() {
    return this.status === 400 || this.status === 413 || this.status === 422;
  }
}

/** Asks the service. `onWait(seconds, error)` is told why and when a service is to be asked again. */
export class Service {
  // The key lives here and nowhere else: it is gone when the page is left.
  #key = "";

  constructor({ onWait = () => {} } = {}) {
    this.onWait = onWait;
  }

  useKey(key) {
    this.#key = key.trim();
  }

  get hasKey() {
    return this.#key !== "";
  }

  /** Labels, thresholds and limits. */
  async schema(signal) {
    return (await this.#ask("schema", { signal })).json();
  }

  /** A text as a document with what was found in it. */
  async extract(text, { thresholds, signal }) {
    const asked = thresholds ? { text, thresholds } : { text };
    const answer = await (await this.#ask("extract", { body: asked, signal })).json();
    return answer.documents[0];
  }

  /** The drawing of a document: an HTML fragment that the service has escaped. */
  async draw(document, signal) {
    return (await this.#ask("draw", { body: { document }, signal })).text();
  }

  /** The two files of brat: text and annotations. */
  async brat(document, signal) {
    return (await this.#ask("convert", { body: { document }, signal })).json();
  }

  async #ask(path, { body = null, signal }) {
    for (let attempt = 1; ; attempt += 1) {
      const response = await this.#fetched(path, body, signal);
      if (response.ok) return response;
      const error = await refusal(response);
      if (response.status !== 503 || attempt >= (ATTEMPTS[error.code] ?? ATTEMPTS.busy)) throw error;
      const seconds = waitingTime(response, attempt);
      this.onWait(seconds, error);
      await pause(seconds, signal);
    }
  }

  async #fetched(path, body, signal) {
    const headers = body === null ? {} : { "Content-Type": "application/json" };
    if (this.#key) headers.Authorization = `Bearer ${this.#key}`;
    const options = { signal, headers, credentials: "omit", cache: "no-store" };
    if (body !== null) Object.assign(options, { method: "POST", body: JSON.stringify(body) });
    try {
      return await fetch(new URL(path, document.baseURI), options);
    } catch (error) {
      if (signal?.aborted) throw error;
      throw new ServiceError("The server does not answer. Check that it is still running and that you are connected.");
    }
  }
}

async function refusal(response) {
  const told = await response.json().catch(() => null);
  const { code = "error", message = "" } = told?.error ?? {};
  const said = message ? sentence(message) : `The server answered ${response.status} ${response.statusText}`.trim();
  return new ServiceError(said, { status: response.status, code });
}

/** What the service says of an error begins small and has no end. */
function sentence(said) {
  return `${said.charAt(0).toUpperCase()}${said.slice(1)}${/[.!?]$/u.test(said) ? "" : "."}`;
}

function waitingTime(response, attempt) {
  const asked = Number(response.headers.get("Retry-After"));
  return Math.min(LONGEST_WAIT, asked > 0 ? asked : 2 ** (attempt - 1));
}

function pause(seconds, signal) {
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
