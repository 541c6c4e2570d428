// Numbers, sizes, times and segments, as people read them.

const whole = new Intl.NumberFormat("en");
const one = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

export const number = (value) => (value === null || value === undefined ? "–" : whole.format(value));
export const decimal = (value) => one.format(value);
export const percent = (share) => `${one.format(100 * share)} %`;
export const plural = (count, word, words = `${word}s`) => `${number(count)} ${count === 1 ? word : words}`;
export const listed = (items) => (items.length < 2 ? items.join("") : `${items.slice(0, -1).join(", ")} and ${items.at(-1)}`);
export const shardsText = (shards) => `${shards.length === 1 ? "shard" : "shards"} ${listed(shards.map(String))}`;
export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

export function bytes(count) {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (count >= 1024 && at < units.length - 1) [count, at] = [count / 1024, at + 1];
  return `${at ? one.format(count) : whole.format(count)} ${units[at]}`;
}

// "round 2", with its slice where rounds have several.
export const roundText = ([, round, slice], sliced) => (sliced ? `round ${round}, slice ${slice}` : `round ${round}`);

const SPANS = [["day", 86_400], ["hour", 3_600], ["minute", 60], ["second", 1]];

export function away(time, now = Date.now()) {
  const seconds = (Date.parse(time) - now) / 1000;
  const [unit, length] = SPANS.find(([, each]) => Math.abs(seconds) >= each) ?? SPANS.at(-1);
  const count = Math.round(Math.abs(seconds) / length);
  if (count === 0) return "now";
  const span = plural(count, unit);
  return seconds > 0 ? `in ${span}` : `${span} ago`;
}

export const clock = (time) => new Date(time).toLocaleTimeString("en-GB");

const full = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "long" });

// A time with its date and zone: "17 Nov 2026, 21:20:05 UTC".
export const stamp = (time) => full.format(new Date(time));
