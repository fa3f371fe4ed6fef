import type { Headers } from '@tributary/core';

/** Longer texts are parsed: a value may be a slice of its text, and who keeps the one keeps the other. */
const MAX_TEXT = 1_024;

/** Of one topic's records some have a header more than others. */
const MAX_FORMS = 4;

/** What to learn a form costs, in texts that are read by one. */
const LEARNING = 16;

/** What the texts of a form have in common, and where they differ. */
interface Form {
  readonly names: readonly string[];
  /** The text around the values that differ, one piece more than there are of those. */
  readonly pieces: readonly string[];
  /** The names of the values that differ, in the order of the text. */
  readonly differing: readonly string[];
  readonly example: Headers;
}

/**
 * Reads the headers of one partition's records from their JSON. They are alike but for a few values, such as the
 * message's id, so what a text has in common with those before it is compared and not parsed, which takes a third of
 * the time, and the values that are equal share their strings.
 */
export class HeadersReader {
  #text = '{}';
  #headers: Headers = {};
  #forms: readonly Form[] = [];
  /** Where no text is like one before it there is nothing to learn. */
  #credit = MAX_FORMS * LEARNING;

  /** Equal texts in a row give the same object. Throws `SyntaxError` for what is no JSON. */
  read(text: string): Headers {
    if (text === this.#text) return this.#headers;
    this.#headers = this.#filled(text) ?? this.#parse(text);
    this.#text = text;
    return this.#headers;
  }

  #filled(text: string): Headers | undefined {
    // Without escapes every quote begins or ends a name or a value.
    if (text.length > MAX_TEXT || text.includes('\\')) return undefined;
    for (const form of this.#forms) {
      const headers = filled(form, text);
      if (headers === undefined) continue;
      this.#credit = Math.min(this.#credit + 1, MAX_FORMS * LEARNING);
      return headers;
    }
    return undefined;
  }

  #parse(text: string): Headers {
    const headers: Headers = JSON.parse(text);
    if (text.length > MAX_TEXT || this.#credit < LEARNING) return headers;
    this.#credit -= LEARNING;
    const names = Object.keys(headers);
    const known = this.#forms.find((form) => isSame(form.names, names));
    const form = formOf(text, names, headers, known);
    if (form === undefined) return headers;
    this.#forms = [form, ...this.#forms.filter((other) => other !== known)].slice(0, MAX_FORMS);
    return headers;
  }
}

/** The headers a text of this form holds; undefined for any other text. */
function filled({ pieces, differing, example }: Form, text: string): Headers | undefined {
  const headers: Record<string, string> = { ...example };
  let at = 0;
  for (let i = 0; i < pieces.length; i++) {
    const piece = pieces[i] ?? '';
    // A slice copies nothing, and to compare it takes half of what `startsWith` does.
    if (text.slice(at, at + piece.length) !== piece) return undefined;
    at += piece.length;
    const name = differing[i];
    if (name === undefined) break;
    const end = text.indexOf('"', at);
    headers[name] = text.slice(at, end);
    at = end;
  }
  return at === text.length ? headers : undefined;
}

/**
 * What to expect after this text: other values where there were others before. Undefined where the text is not just its
 * values between quotes.
 */
function formOf(
  text: string,
  names: readonly string[],
  headers: Headers,
  before: Form | undefined,
): Form | undefined {
  // To assign `__proto__` would do something else than to have it.
  if (text.includes('\\') || names.includes('__proto__') || JSON.stringify(headers) !== text)
    return undefined;
  const differs = (name: string) =>
    before?.differing.includes(name) || before?.example[name] !== headers[name];
  const differing = before === undefined ? [] : names.filter(differs);
  const pieces: string[] = [];
  let piece = '{';
  for (const [i, name] of names.entries()) {
    piece += `${i === 0 ? '' : ','}"${name}":"`;
    if (differing.includes(name)) {
      pieces.push(piece);
      piece = '';
    } else piece += headers[name];
    piece += '"';
  }
  // A copy: whoever changes headers all the same changes no others.
  return { names, pieces: [...pieces, `${piece}}`], differing, example: { ...headers } };
}

function isSame(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((name, i) => name === b[i]);
}
