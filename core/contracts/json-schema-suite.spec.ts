import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import type { Json, JsonObject } from '../event/event.ts';
import { compiled, contractWith, violationsOf } from './contracts.fixture.ts';
import { checkSchema } from './evaluation/compile-schema.ts';
import { createContractEvaluator } from './evaluator.ts';

/*
 * Runs the official JSON Schema test suite against the contracts' dialect. A schema that the dialect accepts
 * must behave as the suite requires; any other schema is rejected when a contract is created. The figures are
 * in docs/reference/contract-keywords.md. The data is stored in test/data/json-schema-test-suite because the npm package
 * @json-schema-org/tests 2.0.0 contains none: it fetches, at installation, a Git repository's state from
 * before draft 2020-12.
 */

const ROOT = new URL('../../', import.meta.url);

interface Group {
  readonly description: string;
  readonly schema: JsonObject | boolean;
  readonly tests: readonly { readonly description: string; readonly data: Json; readonly valid: boolean }[];
}

interface SuiteFile {
  readonly file: string;
  readonly groups: readonly Group[];
}

/** Tests of one group with a deliberately different result here. */
interface Difference {
  readonly why: string;
  readonly drafts: readonly Draft[];
  readonly where: RegExp;
  readonly tests: number;
}

type Draft = 'draft-07' | '2020-12';
const DRAFTS: readonly [Draft, string][] = [
  ['draft-07', 'http://json-schema.org/draft-07/schema#'],
  ['2020-12', 'https://json-schema.org/draft/2020-12/schema'],
];

const DIFFERENCES: readonly Difference[] = [
  {
    why: 'A contract that names a format means it; 2020-12 leaves it to an implementation to assert formats.',
    drafts: ['2020-12'],
    where: /^format\.json > .* is only an annotation by default$/,
    tests: 15,
  },
  {
    why: 'What a string encodes is described, not checked: draft-07 lets it be, 2020-12 demands so.',
    drafts: ['draft-07'],
    where: /^optional\/content\.json > /,
    tests: 4,
  },
  {
    why: 'A label xn-- is not decoded, and -- in its third place is in use in names that do resolve.',
    drafts: ['draft-07', '2020-12'],
    where: /^optional\/format\/hostname\.json > validation of A-label \(punycode\) host names > /,
    tests: 23,
  },
];

/** The allowed reasons for rejecting a schema of the suite. */
const REFUSALS: readonly RegExp[] = [
  /^must not point outside this schema$/,
  /^must name a \$dynamicAnchor that stands once in this schema$/,
  /^must be one of the known formats: /,
  /^must run in linear time: /,
  /^must name JSON Schema draft-07, 2019-09 or 2020-12$/,
  /^is not a keyword of JSON Schema$/,
  /^points at nothing that is a schema$/,
];

function filesOf(draft: Draft): readonly SuiteFile[] {
  const packed = readFileSync(new URL(`test/data/json-schema-test-suite/${draft}.ndjson.gz`, ROOT));
  return gunzipSync(packed)
    .toString()
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as SuiteFile);
}

/** A definition must be an object, so a schema `true` or `false` is wrapped in an `allOf`. */
function definitionOf({ schema }: Group, $schema: string): JsonObject {
  return { $schema, ...(typeof schema === 'boolean' ? { allOf: [schema] } : schema) };
}

function answers(definition: JsonObject, { tests }: Group): readonly boolean[] | undefined {
  if (checkSchema(definition).length > 0) return undefined;
  const schema = compiled(definition);
  return tests.map(({ data }) => violationsOf(schema, data).length === 0);
}

interface Figures {
  right: number;
  refused: number;
  different: number;
}

function run(draft: Draft, $schema: string) {
  const figures = new Map<string, Figures>();
  const refusals: string[] = [];
  const differences: string[] = [];
  for (const { file, groups } of filesOf(draft)) {
    const of: Figures = { right: 0, refused: 0, different: 0 };
    figures.set(file, of);
    for (const group of groups) {
      const definition = definitionOf(group, $schema);
      const given = answers(definition, group);
      if (given === undefined) {
        of.refused += group.tests.length;
        refusals.push(...checkSchema(definition).map(({ message }) => message));
      }
      for (const [at, { description, valid }] of given === undefined ? [] : group.tests.entries()) {
        if (given?.[at] === valid) of.right++;
        else {
          of.different++;
          differences.push(`${file} > ${group.description} > ${description}`);
        }
      }
    }
  }
  return { figures, refusals, differences };
}

const row = (name: string, { right, refused, different }: Figures) =>
  `| ${name} | ${right} | ${refused} | ${different} |`;

/** A row for the draft, which the guide has, and one for each file of the suite with deviations. */
function rows(draft: Draft, figures: ReadonlyMap<string, Figures>): readonly string[] {
  const whole: Figures = { right: 0, refused: 0, different: 0 };
  for (const { right, refused, different } of figures.values()) {
    whole.right += right;
    whole.refused += refused;
    whole.different += different;
  }
  const others = [...figures].filter(([, { refused, different }]) => refused + different > 0);
  return [row(draft, whole), ...others.map(([file, of]) => row(`\`${file.replace('.json', '')}\``, of))];
}

const contractOf = (schema_definition: JsonObject, id: string) =>
  contractWith({ id, event_type: 'identify', event_name: '', schema_definition });

describe.each(DRAFTS)('the test suite of JSON Schema %s', (draft, $schema) => {
  const result = run(draft, $schema);

  it('is met by every schema that the dialect accepts, but for the differences listed', () => {
    const listed = DIFFERENCES.filter(({ drafts }) => drafts.includes(draft));
    expect(result.differences.filter((name) => !listed.some(({ where }) => where.test(name)))).toEqual([]);
    for (const { where, tests } of listed) {
      expect(result.differences.filter((name) => where.test(name))).toHaveLength(tests);
    }
  });

  it('holds no schema that is refused for want of anything else than the dialect leaves out', () => {
    expect(result.refusals.filter((message) => !REFUSALS.some((known) => known.test(message)))).toEqual([]);
  });

  it('comes to the figures of the guide', () => {
    const [whole, ...files] = rows(draft, result.figures);
    console.info(`JSON Schema: right, refused, different\n${[whole, ...files].join('\n')}`);
    const guide = readFileSync(new URL('docs/reference/contract-keywords.md', ROOT), 'utf8');
    expect(guide.replaceAll(/ +\|/g, ' |')).toContain(`\n${whole}\n`);
  });

  it('gets the same answers by way of an event', () => {
    const evaluator = createContractEvaluator();
    const others: string[] = [];
    for (const { file, groups } of filesOf(draft)) {
      for (const [at, group] of groups.entries()) {
        const definition = definitionOf(group, $schema);
        const contract = contractOf(definition, `${file} ${at}`);
        for (const [index, valid] of (answers(definition, group) ?? []).entries()) {
          const traits = group.tests[index]?.data;
          if (typeof traits !== 'object' || traits === null || Array.isArray(traits)) continue;
          const { outcome } = evaluator.evaluate(contract, {
            message_id: 'm',
            type: 'identify',
            user_id: 'u',
            traits: traits as JsonObject,
            timestamp: '2026-03-01T00:00:00.000Z',
            received_at: '2026-03-01T00:00:00.000Z',
            environment: 'production',
            workspace_id: 'w',
          });
          if (outcome !== (valid ? 'accepted' : 'rejected')) others.push(`${file} > ${group.description}`);
        }
      }
    }
    expect(others).toEqual([]);
  });
});

describe('the short form', () => {
  it('changes nothing of a schema of draft 2020-12 that does not name its dialect', () => {
    const changed: string[] = [];
    for (const { file, groups } of filesOf('2020-12')) {
      for (const group of groups) {
        const { $schema, ...short } = definitionOf(group, 'https://json-schema.org/draft/2020-12/schema');
        // A schema that names another dialect is rejected for that.
        if ($schema !== 'https://json-schema.org/draft/2020-12/schema') continue;
        const [given, full] = [answers(short, group), answers({ $schema, ...short }, group)];
        if (given?.join() !== full?.join()) changed.push(`${file} > ${group.description}`);
      }
    }
    expect(changed).toEqual([]);
  });
});
