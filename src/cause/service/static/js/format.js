// Numbers, sizes and times in the language of the page.

const LANGUAGE = document.documentElement.lang || "en";
const DATES = LANGUAGE === "en" ? "en-GB" : LANGUAGE; // the day before the month, and 24 hours
const whole = new Intl.NumberFormat(LANGUAGE);
const one = new Intl.NumberFormat(LANGUAGE, { maximumFractionDigits: 1 });
const short = new Intl.NumberFormat(LANGUAGE, { notation: "compact", maximumFractionDigits: 1 });

export const number = (value) => (value === null || value === undefined ? "–" : whole.format(value));
export const compact = (value) => short.format(value);
export const decimal = (value) => one.format(value);
export const percent = (share) => `${one.format(100 * share)} %`;
export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

export function bytes(count) {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (count >= 1024 && at < units.length - 1) [count, at] = [count / 1024, at + 1];
  return `${at ? one.format(count) : whole.format(count)} ${units[at]}`;
}

const clocks = new Intl.DateTimeFormat(DATES, { timeStyle: "medium" });
const full = new Intl.DateTimeFormat(DATES, { dateStyle: "medium", timeStyle: "long" });
const days = new Intl.DateTimeFormat(DATES, { day: "numeric", month: "short" });
const minutes = new Intl.DateTimeFormat(DATES, { timeStyle: "short" });

export const clock = (time) => clocks.format(new Date(time));

// A time with its date and zone: "17 Nov 2026, 21:20:05 UTC".
export const stamp = (time) => full.format(new Date(time));

// A mark on a time axis that spans so many milliseconds.
export const tick = (time, span) => (span > 2 * 86_400_000 ? days : span > 600_000 ? minutes : clocks).format(new Date(time));
