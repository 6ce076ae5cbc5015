// What the page asks of the service, and how it bears that the service is gone.

const JOBS = "/v1/projects/page/jobs";
const MODELS = "/v1/projects/page/models";
const TOKEN = "downpour-token";

export class ServiceError extends Error {
  constructor(code, message) {
    super(message);
    this.code = code; // of HTTP; 0: nobody answers
  }
}

export function setToken(token) {
  sessionStorage.setItem(TOKEN, token);
}

export const hasToken = () => Boolean(sessionStorage.getItem(TOKEN));

/** The answer's head and what `read` makes of its body. `body` is an object, sent as JSON, or a file. */
async function send(method, path, body, read) {
  const headers = {};
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers.Authorization = `Bearer ${token}`;
  const isFile = body instanceof Blob;
  if (body !== undefined) headers["Content-Type"] = isFile ? "application/octet-stream" : "application/json";
  try {
    const response = await fetch(path, { method, headers, body: isFile ? body : JSON.stringify(body) });
    return { response, content: await read(response) };
  } catch {
    throw new ServiceError(0, "the service does not answer");
  }
}

function understood({ response, content }) {
  let answer = null;
  try {
    answer = JSON.parse(content);
  } catch {
    throw new ServiceError(response.status, `the service's answer (${response.status}) is not understood`);
  }
  if (!response.ok) throw new ServiceError(response.status, answer?.error?.message ?? `error ${response.status}`);
  return answer;
}

const asText = (response) => response.text();
const ask = async (method, path, body) => understood(await send(method, path, body, asText));

/** A file's bytes; what an error says is JSON as ever. */
async function blob(path) {
  const answer = await send("GET", path, undefined, (response) => (response.ok ? response.blob() : response.text()));
  return answer.response.ok ? answer.content : understood(answer);
}

/** Resumable, since other uploads may not be as large. Returns the file's gs:// address. */
async function upload(bucket, name, file) {
  const begin = `/upload/storage/v1/b/${bucket}/o${query({ uploadType: "resumable", name })}`;
  const begun = await send("POST", begin, undefined, asText);
  understood(begun);
  const { pathname, search } = new URL(begun.response.headers.get("Location"));
  await ask("PUT", pathname + search, file);
  return `gs://${bucket}/${name}`;
}

const query = (words) => {
  const said = Object.entries(words).filter(([, value]) => value !== "" && value !== undefined);
  return said.length === 0 ? "" : `?${new URLSearchParams(said)}`;
};
const path = (name, rest = "") => `${JOBS}/${encodeURIComponent(name)}${rest}`;

export const api = {
  overview: (words) => ask("GET", `${JOBS}:overview${query(words)}`),
  job: (name) => ask("GET", path(name)),
  status: (name, words) => ask("GET", path(name, `/status${query(words)}`)),
  history: (name, after) => ask("GET", path(name, `/history${query({ after })}`)),
  checkpoints: (name) => ask("GET", path(name, "/checkpoints")),
  logs: (name, words) => ask("GET", path(name, `/logs${query(words)}`)),
  rawLog: (name, task) => path(name, `/logs/${encodeURIComponent(task)}`), // its address
  objects: (bucket, prefix) => ask("GET", `/storage/v1/b/${encodeURIComponent(bucket)}/o${query({ prefix })}`),
  blob,
  upload,
  models: () => ask("GET", `${MODELS}:overview`),
  predict: (model, version, instances) =>
    ask("POST", `${MODELS}/${encodeURIComponent(model)}/versions/${encodeURIComponent(version)}:predict`, { instances }),
  submit: (job) => ask("POST", JOBS, job),
  cancel: (name) => ask("POST", path(name, ":cancel"), {}),
  checkpoint: (name) => ask("POST", path(name, ":checkpoint"), {}),
  remove: (name) => ask("DELETE", path(name)),
};

/** Whoever wants to know whether the service answers. */
export const link = {
  listener: () => {},
  tell(error) {
    this.listener(error);
  },
};

/**
 * Calls `act` again and again, `seconds` after each time that it is done. Slower while the page is hidden. Ends when
 * `act` returns false. A service that does not answer is asked again; any other error goes to `fail`, and ends it.
 * Returns what calls it at once.
 */
export function repeat(act, seconds, fail = () => {}) {
  let timer = 0;
  let busy = false;
  let ended = false;
  const again = async () => {
    if (busy || ended) return;
    busy = true;
    clearTimeout(timer);
    let wait = document.hidden ? Math.max(seconds, 10) : seconds;
    try {
      ended = (await act()) === false;
      link.tell(null);
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      link.tell(error);
      if (error.code === 0 || error.code >= 500) {
        wait = Math.max(seconds, 2);
      } else {
        ended = true;
        fail(error);
      }
    } finally {
      busy = false;
      if (!ended) timer = setTimeout(again, 1000 * wait);
    }
  };
  document.addEventListener("visibilitychange", () => document.hidden || again());
  again();
  return again;
}
