/** `what`: the events that were looked for, such as `event of this type`. `complete`: the whole time was read. */
export function noneFoundText(what: string, complete: boolean): string {
  return complete
    ? `No ${what} was found.`
    : `No ${what} was found in the newest part of the log; there may be older ones.`;
}
