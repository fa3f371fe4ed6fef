/** The start of a text that others chose the length of, for values that must fit into an entry. */
export function shorten(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length)}...`;
}
