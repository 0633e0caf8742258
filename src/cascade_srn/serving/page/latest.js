/* Work that is asked for again before it is done: only the last one counts. */

/** A function that runs a job and abandons the one before; what was abandoned neither returns nor fails. */
export function latest(job) {
  let current = null;
  const run = async (...given) => {
    current?.abort();
    const mine = new AbortController();
    current = mine;
    try {
      await job(mine.signal, ...given);
    } catch (error) {
      if (!mine.signal.aborted) throw error;
    }
  };
  run.abandon = () => current?.abort();
  return run;
}

/** A function that calls another once nothing has asked for it for a while; `now` does not wait. */
export function settled(action, milliseconds) {
  let timer = 0;
  const later = () => {
    clearTimeout(timer);
    timer = setTimeout(action, milliseconds);
  };
  later.now = () => {
    clearTimeout(timer);
    action();
  };
  later.never = () => clearTimeout(timer);
  return later;
}
