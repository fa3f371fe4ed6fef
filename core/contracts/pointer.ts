/** The JSON pointer of a member of what `pointer` points at. */
export function below(pointer: string, member: string | number): string {
  return `${pointer}/${String(member).replaceAll('~', '~0').replaceAll('/', '~1')}`;
}
