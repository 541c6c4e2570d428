// How far away a time is: "in 3 days", "2 hours ago".

import { T } from "./texts.js";

const SPANS = [["day", 86_400], ["hour", 3_600], ["minute", 60], ["second", 1]];

function span(time, now) {
  const seconds = (Date.parse(time) - now) / 1000;
  const [unit, length] = SPANS.find(([, each]) => Math.abs(seconds) >= each) ?? SPANS.at(-1);
  const count = Math.round(Math.abs(seconds) / length);
  return { count, text: T.time.spans[unit](count), ahead: seconds > 0 };
}

export function away(time, now = Date.now()) {
  const { count, text, ahead } = span(time, now);
  return count === 0 ? T.time.now : ahead ? T.time.ahead(text) : T.time.ago(text);
}

// The span alone: "3 days".
export const distance = (time, now = Date.now()) => span(time, now).text;
