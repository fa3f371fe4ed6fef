import { readFileSync } from 'node:fs';
import { tests } from '@bufbuild/cel-spec/testdata/conformance.js';
import { describe, expect, it } from 'vitest';
import { evaluateFilter, filterFault } from './filter.ts';
import { eventWith } from './filters.fixture.ts';

/*
 * Runs the conformance cases of cel-spec against filters. A case is one filter: its expression compared with the expected
 * value. A filter that is accepted must give CEL's result; any other is refused when its rule is created.
 */

/** Cases with a deliberately different result here. */
const DIFFERENCES = [
  {
    why: 'trim() removes the white space of JavaScript, whose set differs in three characters',
    where: /^string_ext > trim > unicode_/,
    cases: 2,
  },
  {
    why: 'the parser takes a character beyond ASCII in bytes for one byte; events have no bytes',
    where: /^basic > self_eval_nonzeroish > self_eval_bytes_escape$|^comparisons > .*_bytes$/,
    cases: 3,
  },
];

/** Why a case may be refused, as the fault says it. */
const REFUSALS: readonly (readonly [why: string, fault: RegExp])[] = [
  ['event is the only variable', /^Unknown variable: /],
  [
    'protocol buffers have no place in an event',
    /LBRACE|'\{'|Unexpected token: DOT|Unexpected character: \f/,
  ],
  ['functions that filters leave out, for their cost', /is not available in a filter$/],
  ['+ does not concatenate', /^\+ adds numbers/],
  [
    'types are checked when the rule is created',
    /^no such overload|^found no matching overload|requires bool operands|^Ternary|^Operator overload/,
  ],
  ['a filter gives true or false', /^gives /],
  ['optional values', /QUESTION|^Cannot index type 'undefined'/],
  ['names in back quotes: event.properties["a-b"] does it', /^Unexpected character: `/],
  ['has() takes a field of event', /^has\(\) invalid argument/],
  ['macros of block_ext', /invalid predicate iteration variable$/],
  ['br"..." is written b"..."', /^Expected RPAREN, got STRING/],
  ['bounds', /^has a loop in a loop$|^Exceeded maxDepth/],
];

type Suite = typeof tests;
type Case = NonNullable<Suite['tests']>[number]['original'];

function* casesOf(
  { suites = [], tests: cases = [] }: Suite,
  path: readonly string[],
): Generator<[string, Case]> {
  for (const suite of suites) yield* casesOf(suite, [...path, suite.name]);
  for (const { original } of cases) yield [[...path, original.name ?? original.expr].join(' > '), original];
}

/** A value of the cases as CEL; undefined for protocol buffers. */
function literal(value: unknown): string | undefined {
  const [[kind, of] = []] = Object.entries(value as Record<string, unknown>);
  switch (kind) {
    case 'nullValue':
      return 'null';
    case 'boolValue':
    case 'int64Value':
    case 'typeValue':
      return String(of);
    case 'uint64Value':
      return `${of}u`;
    case 'doubleValue':
      return `double("${of}")`;
    case 'stringValue':
      return JSON.stringify(of);
    case 'bytesValue':
      return `b"${Buffer.from(String(of), 'base64').toString('hex').replace(/../g, '\\x$&')}"`;
    case 'listValue': {
      const items = (of as { values?: unknown[] }).values?.map(literal) ?? [];
      return items.includes(undefined) ? undefined : `[${items.join(', ')}]`;
    }
    case 'mapValue': {
      const { entries = [] } = of as { entries?: { key: unknown; value: unknown }[] };
      const items = entries.map(({ key, value: item }) => [literal(key), literal(item)]);
      return items.flat().includes(undefined)
        ? undefined
        : `{${items.map((item) => item.join(': ')).join(', ')}}`;
    }
    default:
      return undefined;
  }
}

/** The filter of a case, and whether it has to fail. A case without a value expects true. */
function filterOf({ expr, value, typedResult, evalError }: Case) {
  if (evalError !== undefined) return { filter: `(${expr}) in [true]`, fails: true };
  const { result = { boolValue: true } } = (typedResult ?? {}) as { result?: unknown };
  const wanted = literal(value ?? result);
  if (wanted === undefined) return { filter: 'message{}', fails: false };
  if (wanted === 'true') return { filter: expr, fails: false };
  return { filter: wanted === 'false' ? `!(${expr})` : `(${expr}) == ${wanted}`, fails: false };
}

describe('the conformance cases of CEL', () => {
  const refusals: string[] = [];
  const differences: string[] = [];
  let right = 0;
  for (const [name, one] of casesOf(tests, [])) {
    if (one.checkOnly === true) continue;
    const made = filterOf(one);
    const fault = filterFault(made.filter);
    const result = fault === undefined ? evaluateFilter(made.filter, eventWith({})) : undefined;
    if (fault !== undefined) refusals.push(fault);
    else if (made.fails ? typeof result === 'object' : result === 'matched') right += 1;
    else differences.push(name);
  }

  it('give the result of CEL for each filter that is accepted, but for the differences listed', () => {
    expect(differences.filter((name) => !DIFFERENCES.some(({ where }) => where.test(name)))).toEqual([]);
    for (const { where, cases } of DIFFERENCES)
      expect(differences.filter((name) => where.test(name))).toHaveLength(cases);
  });

  it('are refused for what filters leave out, and for nothing else', () => {
    expect(refusals.filter((fault) => !REFUSALS.some(([, known]) => known.test(fault)))).toEqual([]);
  });

  it('come to the figures of the reference', () => {
    const reference = readFileSync(
      new URL('../../docs/reference/delivery-lifecycle.md', import.meta.url),
      'utf8',
    );
    const of = right + refusals.length + differences.length;
    expect(reference.replace(/\s+/g, ' ')).toContain(
      `of ${of} cases ${right} give CEL's result, ${refusals.length} use something that filters do not have and are refused, ` +
        `and ${differences.length} differ`,
    );
  });
});
