const EVERY = 2000; // milliseconds between two looks
const SLOWER = 5000; // between two looks at pools, whose pictures cost a stream's turn
const $ = (id) => document.getElementById(id);
let token = sessionStorage.getItem("multipool-token") || "";
let chosen = decodeURIComponent(location.hash.slice(1));
let pools = { stream: "", images: -1, at: 0 };
let refreshing = null;

class Unknown extends Error {} // who asks: the token is missing or wrong
class Gone extends Error {}

async function ask(path, method = "GET") {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const answer = await fetch(path, { method, headers, cache: "no-store" });
  if (answer.status === 401) throw new Unknown();
  if (answer.status === 404) throw new Gone((await answer.json()).error);
  if (!answer.ok) throw new Error((await answer.json().catch(() => ({}))).error || `status ${answer.status}`);
  return answer;
}
const read = async (path) => (await ask(path)).json();
const at = (stream, rest = "") => `/api/streams/${encodeURIComponent(stream)}${rest}`;

// Everything that comes from outside is put in as text, never as HTML.
function make(tag, text = "", className = "") {
  const found = document.createElement(tag);
  found.textContent = text;
  found.className = className;
  return found;
}
function row(cells) {
  const found = document.createElement("tr");
  found.append(...cells.map((cell) => (cell instanceof Node ? cell : make("td", cell))));
  return found;
}

const count = (n) => (n === null ? "–" : n.toLocaleString("en"));
const percent = (p) => (p === null ? "–" : `${(100 * p).toFixed(1)}\u00a0%`);
const clock = (seconds) => new Date(1000 * seconds).toLocaleTimeString("en-GB");
function ago(seconds) {
  if (seconds < 60) return `${Math.round(seconds)} s ago`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min ago`;
  return seconds < 86400 ? `${Math.round(seconds / 3600)} h ago` : `${Math.round(seconds / 86400)} d ago`;
}

function showService(about) {
  $("model").textContent = `${about.model.name}, method ${about.method}`;
  $("service").textContent = `version ${about.version} · up since ${new Date(1000 * about.started).toLocaleString("en-GB")} · ` +
    `${count(about.in_memory)} streams in memory · ${count(about.pending)} requests waiting` + (about.draining ? " · shutting down" : "");
}

function showStreams(listed) {
  const rows = listed.streams.map((s) => {
    const known = s.requests > 0; // since the service began; before that only its file is known
    const name = make("td");
    const button = make("button", s.name);
    name.append(button);
    const found = row([name, known ? count(s.images) : "–", known ? count(s.pools) : "–",
      known ? percent(s.estimate) : "–", known ? ago(s.idle_seconds) : "on disk"]);
    found.dataset.name = s.name;
    found.classList.toggle("chosen", s.name === chosen);
    found.onclick = () => choose(s.name);
    return found;
  });
  const focused = document.activeElement?.closest("#streams tr")?.dataset.name;
  $("streams").replaceChildren(...rows);
  if (focused) rows.find((r) => r.dataset.name === focused)?.querySelector("button").focus();
  $("none").hidden = listed.total > 0;
  const all = listed.total > rows.length ? `${rows.length} used last of ${count(listed.total)}` : count(listed.total);
  $("total").textContent = listed.total ? all : "";
}

function showEvents(events) {
  $("events").replaceChildren(...events.map((e) => {
    const counted = /^\d+$/.test(e.detail); // of what its name says, in one batch
    const found = row([clock(e.time), e.kind, e.stream, counted ? `${e.detail} in a batch` : e.detail]);
    found.classList.add(e.level);
    found.dataset.kind = e.kind;
    return found;
  }));
}

function showStream(s) {
  $("name").textContent = `Stream ${s.name}`;
  const saved = s.saved_at === null ? (s.on_disk ? "on disk" : "never saved") : `saved at ${clock(s.saved_at)}`;
  $("facts").textContent = `${count(s.requests)} requests · ${count(s.updates)} updates · ${count(s.skipped)} skipped · ` +
    `${count(s.restored)} restored · ${s.in_memory ? "in memory" : "at rest"} · ${saved}`;
  const h = s.history;
  chart("accuracy", h.time, h.estimate, 1, percent);
  const highest = Math.max(0.1, ...h.entropy);
  chart("entropy", h.time, h.entropy, highest, (v) => (v === null ? "–" : v.toFixed(2)));
}

async function showPools(s) {
  const now = Date.now();
  const same = pools.stream === s.name;
  if (!s.in_memory) { // asking would bring it back into memory
    if (!same || pools.images !== null) $("pools").replaceChildren(make("p", "The stream rests on the disk; its pools are shown when it is back.", "quiet"));
    pools = { stream: s.name, images: null, at: 0 };
    return;
  }
  if (same && (pools.images === s.images || now - pools.at < SLOWER)) return;
  pools = { stream: s.name, images: s.images, at: now };
  const found = (await read(at(s.name, "/pools"))).pools;
  const cards = await Promise.all(found.map((pool, number) => card(s.name, pool, number)));
  if (chosen !== s.name) return;
  for (const image of $("pools").querySelectorAll("img")) URL.revokeObjectURL(image.src);
  $("pools").replaceChildren(...(cards.length ? cards : [make("p", "None: the method keeps no pools, or has seen too little.", "quiet")]));
}
async function card(stream, pool, number) {
  const found = make("div", "", pool.active ? "pool active" : "pool");
  try {
    const picture = await (await ask(at(stream, `/pictures/${encodeURIComponent(pool.bank)}.png`))).blob();
    const image = document.createElement("img");
    image.src = URL.createObjectURL(picture);
    image.alt = `the newest pictures that pool ${number + 1} keeps`;
    found.append(image);
  } catch (error) {
    if (error instanceof Unknown) throw error;
    found.append(make("p", "no pictures kept", "quiet"));
  }
  const trust = make("p", `trust ${pool.trust.toFixed(2)}`, "quiet");
  trust.title = "how much its own statistics count beside those of training, 0 to 1";
  found.append(make("p", `Pool ${number + 1}${pool.active ? ", in use" : ""}`),
    make("p", `${count(pool.samples)} samples (${percent(pool.share)})`, "quiet"), trust);
  return found;
}

async function look() {
  const [about, listed] = await Promise.all([read("/api/service"), read("/api/streams?limit=100")]);
  showService(about);
  if (!chosen && listed.streams.length) chosen = listed.streams[0].name;
  showStreams(listed);
  $("ask").hidden = true;
  $("main").hidden = false;
  const only = $("only").checked && chosen ? `&stream=${encodeURIComponent(chosen)}` : "";
  showEvents((await read(`/api/events?limit=50${only}`)).events);
  const name = chosen;
  const stream = name ? await read(at(name)).catch(forget) : null;
  if (name !== chosen) return;
  $("stream").hidden = !stream;
  if (stream) {
    showStream(stream);
    await showPools(stream);
  }
}
function forget(error) {
  if (!(error instanceof Gone)) throw error;
  chosen = ""; // somebody has removed it: the next look takes another
  return null;
}

async function attempt(work) {
  try {
    await work();
    $("problem").hidden = true;
  } catch (error) {
    const unknown = error instanceof Unknown;
    if (unknown) {
      $("main").hidden = true;
      $("ask").hidden = false;
    }
    $("problem").textContent = unknown ? (token ? "That is not the token." : "") : `Not up to date: ${error.message}`;
    $("problem").hidden = !$("problem").textContent;
  }
}
async function refresh() {
  clearTimeout(refreshing);
  if (!document.hidden) await attempt(look);
  // Whoever has to type a token first is not asked over and over.
  clearTimeout(refreshing); // another look may have begun meanwhile
  if ($("ask").hidden) refreshing = setTimeout(refresh, EVERY);
}
function choose(name) {
  chosen = name;
  history.replaceState(null, "", `#${encodeURIComponent(name)}`);
  refresh();
}

async function press(button, work) {
  button.disabled = true;
  await attempt(work);
  button.disabled = false;
  if ($("problem").hidden) refresh();
}
$("snapshot").onclick = (e) => press(e.target, () => ask(at(chosen, "/snapshot"), "POST"));
$("reset").onclick = (e) => {
  if (confirm(`Forget all that stream ${chosen} has learned?`)) press(e.target, () => ask(at(chosen, "/reset"), "POST"));
  pools.stream = "";
};
$("download").onclick = (e) => press(e.target, async () => {
  const answer = await ask(at(chosen, "/state"));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await answer.blob());
  link.download = (answer.headers.get("Content-Disposition") || "").split('"')[1] || `${chosen}.safetensors`;
  link.click();
  URL.revokeObjectURL(link.href);
});
$("only").onchange = refresh;
$("ask").onsubmit = (e) => {
  e.preventDefault();
  token = $("token").value.trim();
  sessionStorage.setItem("multipool-token", token);
  refresh();
};
document.addEventListener("visibilitychange", refresh);
refresh();
