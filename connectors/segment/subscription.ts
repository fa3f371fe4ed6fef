/*
 * The conditions of Segment's query language as the pack evaluates them. Its own parser skips what it does not understand, so a
 * subscription with a mistake takes no event, or others than meant; it is checked when a destination is saved.
 */

/** A name, in which a backslash escapes any character. */
const NAME = String.raw`(?:\\.|[A-Za-z_])(?:\\.|[\w-])*`;
const TOKEN = new RegExp(
  [
    String.raw`[ \t\n]*(?:(?<text>"[^"]*")|(?<number>[-+]?\d+(?:\.\d+)?)(?![\w.])`,
    // White space, where the pack needs it: after a word, and around signs other than `=`.
    String.raw`(?<path>(?!(?:and|or)\()${NAME}(?:\.${NAME})*)`,
    String.raw`(?<sign>!=(?=\s)|(?<=\s)[<>]=?(?=\s)|[=!(),]))`,
  ].join('|'),
  'sy',
);

interface Token {
  readonly kind: 'text' | 'number' | 'path' | 'sign' | 'end';
  readonly text: string;
}

const TYPES = new Set(['track', 'identify', 'page', 'screen', 'group', 'alias']);
const COMPARISONS = new Set(['=', '!=', '<', '<=', '>', '>=']);
const TEXT_FIELDS = new Set(['type', 'event', 'name', 'userId']);

/** Why a subscription is not one; undefined for one that the pack understands. */
export function subscriptionFault(subscribe: string): string | undefined {
  try {
    const parser = new Parser(tokensOf(subscribe));
    parser.conditions(false);
    parser.expect('');
    return undefined;
  } catch (error) {
    if (error instanceof SyntaxError) return error.message;
    throw error;
  }
}

function tokensOf(subscribe: string): Token[] {
  const tokens: Token[] = [];
  TOKEN.lastIndex = 0;
  while (subscribe.slice(TOKEN.lastIndex).trim() !== '') {
    const from = TOKEN.lastIndex;
    const { groups } = TOKEN.exec(subscribe) ?? {};
    if (groups === undefined) throw faultAt(subscribe.slice(from).trim());
    for (const kind of ['text', 'number', 'path', 'sign'] as const)
      if (groups[kind] !== undefined) tokens.push({ kind, text: groups[kind] });
  }
  return tokens;
}

function faultAt(rest: string): SyntaxError {
  const hint = rest.startsWith("'") ? ': texts are in double quotes' : '';
  return new SyntaxError(`cannot be parsed at ${JSON.stringify(rest.slice(0, 20))}${hint}`);
}

const END: Token = { kind: 'end', text: '' };

/** The pack takes both in capitals too. */
function jointOf({ kind, text }: Token): 'and' | 'or' | undefined {
  if (kind !== 'path') return undefined;
  const word = text.toLowerCase();
  return word === 'and' || word === 'or' ? word : undefined;
}

class Parser {
  readonly #tokens: Token[];

  constructor(tokens: Token[]) {
    this.#tokens = tokens;
  }

  /** Conditions that are all joined by `and`, or all by `or`, as the pack takes the last one for all. */
  conditions(inGroup: boolean): void {
    this.#condition(inGroup);
    const joint = jointOf(this.#next);
    for (let next = joint; next !== undefined; next = jointOf(this.#next)) {
      if (next !== joint) throw new SyntaxError('must not mix `and` and `or` without parentheses');
      this.#take();
      this.#condition(inGroup);
    }
  }

  expect(text: string): void {
    const token = this.#take();
    if (token.text !== text) throw unexpected(token, text === '' ? '`and`, `or` or the end' : `\`${text}\``);
  }

  get #next(): Token {
    return this.#tokens[0] ?? END;
  }

  #take(): Token {
    return this.#tokens.shift() ?? END;
  }

  #condition(inGroup: boolean): void {
    const first = this.#take();
    if (first.text === '(' && !inGroup) {
      this.conditions(true);
      this.expect(')');
      return;
    }
    const name = first.text === '!' ? this.#take().text : first.text;
    if (name === 'contains' || name === 'match') {
      this.#call(name);
      return;
    }
    if (first.kind !== 'path') throw unexpected(first, 'a condition, such as `type = "track"`');
    this.#field(first);
    this.#comparison(first.text);
  }

  #call(name: string): void {
    this.expect('(');
    const field = this.#take();
    this.#field(field);
    if (field.text === 'type') throw new SyntaxError(`${name} is not for \`type\``);
    this.expect(',');
    const { kind, text } = this.#take();
    if (kind !== 'text') throw new SyntaxError(`${name} needs a text in double quotes`);
    if (name === 'match' && !/^"(?:\*.*|.*\*)"$/s.test(text))
      throw new SyntaxError('match needs a text that begins or ends with `*`');
    this.expect(')');
  }

  #field(token: Token): void {
    if (
      token.kind === 'path' &&
      token.text.split(/(?<!\\)\./).some((name) => /^[.[\]]+$/.test(name.replaceAll('\\', '')))
    )
      throw unexpected(token, 'a name with a letter, a digit or `_`');
    if (
      token.kind === 'path' &&
      (TEXT_FIELDS.has(token.text) || /^(?:properties|traits|context)\./.test(token.text))
    )
      return;
    throw unexpected(
      token,
      'a field: `type`, `event`, `name`, `userId`, or one below `properties`, `traits` or `context`',
    );
  }

  #comparison(field: string): void {
    const sign = this.#take();
    if (!COMPARISONS.has(sign.text)) throw unexpected(sign, 'a comparison, such as `=` or `!=`');
    const value = this.#take();
    // Presets of the pack have types without quotes.
    if (field === 'type' && value.kind === 'path' && TYPES.has(value.text)) return;
    const isWord = value.text === 'true' || value.text === 'false' || value.text === 'null';
    if (value.kind !== 'text' && value.kind !== 'number' && !isWord)
      throw unexpected(value, 'a text in double quotes, a number, `true`, `false` or `null`');
    const isEquality = sign.text === '=' || sign.text === '!=';
    if (!isEquality && value.kind !== 'number') throw new SyntaxError(`\`${sign.text}\` needs a number`);
    if (sign.text === '!=' && (value.text === 'true' || value.text === 'false'))
      throw new SyntaxError(`must compare with \`= ${value.text === 'true' ? 'false' : 'true'}\``);
    if ((field === 'type' || field === 'event') && (value.kind !== 'text' || !isEquality))
      throw new SyntaxError(`\`${field}\` is compared with a text by \`=\` or \`!=\``);
    if (field === 'type' && !TYPES.has(value.text.slice(1, -1)))
      throw new SyntaxError(`no event is of the type ${value.text}`);
  }
}

function unexpected({ kind, text }: Token, wanted: string): SyntaxError {
  return new SyntaxError(`has ${kind === 'end' ? 'its end' : `\`${text}\``} in place of ${wanted}`);
}
