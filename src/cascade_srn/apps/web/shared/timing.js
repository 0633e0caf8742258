/* When jobs run: only the latest one, or after a time without changes. */

/** Wrap an async job so that a new call aborts the previous one, which then neither continues nor fails. */
export function latestOnly(job) {
  let current = null;
  const run = async () => {
    current?.abort();
    const own = new AbortController();
    current = own;
    try {
      await job(own.signal);
    } catch (error) {
      if (!own.signal.aborted) throw error;
    }
  };
  run.abort = () => current?.abort();
  return run;
}

/** Wrap a function so that it runs after a time without calls. `now` does not wait. */
export function debounce(action, milliseconds) {
  let timer = 0;
  const cancel = () => clearTimeout(timer);
  const schedule = () => {
    cancel();
    timer = setTimeout(action, milliseconds);
  };
  const now = () => {
    cancel();
    action();
  };
  return Object.assign(schedule, { cancel, now });
}
