/** The displayed text of a JSON value, indented by two spaces, with the line of each value in it. */
export interface JsonText {
  readonly text: string;
  /** The line (from 1) of the value at a JSON pointer; of the nearest value around it if there is none. */
  lineOf(pointer: string): number;
}

export function jsonTextOf(value: unknown): JsonText {
  const writer = new Writer();
  writer.write(value, '', '', '');
  const { lines, lineByPointer } = writer;
  return {
    text: lines.join('\n'),
    lineOf(pointer) {
      for (let at = pointer; at !== ''; at = at.slice(0, at.lastIndexOf('/'))) {
        const line = lineByPointer.get(at);
        if (line !== undefined) return line;
        if (!at.includes('/')) break;
      }
      return 1;
    },
  };
}

/** Writes the text of `JSON.stringify(value, null, 2)`, and records the line of each value. */
class Writer {
  readonly lines: string[] = [];
  readonly lineByPointer = new Map<string, number>();

  /** `head` is the text before the value on its line. */
  write(value: unknown, pointer: string, head: string, tail: string): void {
    this.lineByPointer.set(pointer, this.lines.length + 1);
    if (typeof value !== 'object' || value === null) {
      this.lines.push(`${head}${JSON.stringify(value) ?? 'null'}${tail}`);
      return;
    }
    const isList = Array.isArray(value);
    const entries = Object.entries(value).filter(([, member]) => isList || member !== undefined);
    const [open, close] = isList ? ['[', ']'] : ['{', '}'];
    if (entries.length === 0) {
      this.lines.push(`${head}${open}${close}${tail}`);
      return;
    }
    const indent = /^ */.exec(head)?.[0] ?? '';
    this.lines.push(`${head}${open}`);
    entries.forEach(([name, member], index) => {
      const label = isList ? '' : `${JSON.stringify(name)}: `;
      const comma = index < entries.length - 1 ? ',' : '';
      this.write(member, memberPointer(pointer, name), `${indent}  ${label}`, comma);
    });
    this.lines.push(`${indent}${close}${tail}`);
  }
}

function memberPointer(pointer: string, name: string): string {
  return `${pointer}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`;
}

/**
 * The value with its members in the order of `model`, new ones last, so that a diff shows changed values and not another
 * order.
 */
export function inOrderOf(value: unknown, model: unknown): unknown {
  if (Array.isArray(value))
    return value.map((item, index) => inOrderOf(item, Array.isArray(model) ? model[index] : undefined));
  if (!isObject(value) || !isObject(model)) return value;
  const names = [
    ...Object.keys(model).filter((name) => Object.hasOwn(value, name)),
    ...Object.keys(value).filter((name) => !Object.hasOwn(model, name)),
  ];
  return Object.fromEntries(names.map((name) => [name, inOrderOf(value[name], model[name])]));
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
