import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../event/event.ts';
import type { ContractTerms } from './contract.ts';
import { compiled, violationsOf } from './contracts.fixture.ts';
import { FORMATS } from './definition/formats.ts';
import { DRAFT_07, DRAFT_2020_12 } from './definition/keywords.ts';
import { createContractEvaluator } from './evaluator.ts';
import { ContractInference } from './infer/infer-contract.ts';

/* Runs the examples of docs/reference/contract-keywords.md. */

const text = readFileSync(new URL('../../docs/reference/contract-keywords.md', import.meta.url), 'utf8');
const AT = '2026-03-01T00:00:00.000Z';

const blocks = [...text.matchAll(/```json (contract|event|verdict)\n([\s\S]*?)```/g)].map(
  ([, kind = '', body = '']) => ({ kind, body: JSON.parse(body) as JsonObject }),
);

/** The code of each line of the list that these words announce. */
function rowsOf(head: string): readonly (readonly string[])[] {
  const [, list = ''] = text.split(`\nBy ${head}: `)[1]?.split('\n\n') ?? [];
  return list.split('\n').map((line) => [...line.matchAll(/`([^`]+)`/g)].map(([, code = '']) => code));
}

function takes(schema_definition: JsonObject, value: string): boolean {
  return violationsOf(compiled(schema_definition), { value: JSON.parse(value) }).length === 0;
}

/** The content of the guide's blocks of one kind that are not JSON objects. */
function blockOf<Body>(kind: string): Body {
  const [, body = ''] = new RegExp(`\`\`\`json ${kind}\n([\\s\\S]*?)\`\`\``).exec(text) ?? [];
  return JSON.parse(body) as Body;
}

function check(definition: JsonObject, good: string, bad: string): void {
  expect(takes(definition, good)).toBe(true);
  if (bad !== '') expect(takes(definition, bad)).toBe(false);
}

describe('an example of the guide', () => {
  const examples = blocks.flatMap(({ kind, body }, at) =>
    kind === 'verdict' ? [{ verdict: body, event: blocks[at - 1], contract: blocks[at - 2] }] : [],
  );

  it('is there, in threes', () => {
    expect(examples).toHaveLength(3);
    expect(blocks).toHaveLength(9);
  });

  it.each(examples)('$contract.body.schema_definition', ({ verdict, event, contract }) => {
    expect([contract?.kind, event?.kind]).toEqual(['contract', 'event']);
    const terms = contract?.body as unknown as ContractTerms;
    const given = createContractEvaluator().evaluate(
      {
        id: 'c',
        version: 1,
        workspace_id: 'w',
        name: 'an example',
        event_type: 'track',
        event_name: 'Order Placed',
        description: null,
        status: 'active',
        created_by: 'someone',
        created_at: AT,
        updated_at: AT,
        ...terms,
      },
      {
        message_id: 'm',
        type: 'track',
        event: 'Order Placed',
        user_id: 'u',
        properties: event?.body ?? {},
        timestamp: AT,
        received_at: AT,
        environment: 'production',
        workspace_id: 'w',
      },
    );
    expect(given).toEqual(verdict);
  });
});

describe('the inference of the guide', () => {
  it('gives the schema that is shown', () => {
    const inference = new ContractInference('track', 'Paid');
    for (const properties of blockOf<readonly JsonObject[]>('events'))
      inference.add({
        message_id: 'm',
        type: 'track',
        event: 'Paid',
        user_id: 'u',
        properties,
        timestamp: AT,
        received_at: AT,
        environment: 'production',
        workspace_id: 'w',
      });
    const { contract } = inference.infer({ requiredRatio: 1, enumMax: 10 });
    expect(contract?.schema_definition).toEqual(blockOf<JsonObject>('inferred'));
  });
});

describe('a keyword of the guide', () => {
  const [, without = ''] = /^Without effect on the verdict: (.*)$/m.exec(text) ?? [];
  const annotations = [...without.matchAll(/`(.*?)`/g)].flatMap(([, schema = '{}']) =>
    Object.keys(JSON.parse(schema) as JsonObject).map((name) => [name, schema, '"any"'] as const),
  );
  const rows: readonly (readonly string[])[] = [...rowsOf('keyword'), ...annotations];
  const older = rowsOf('keyword of draft-07');

  it('is any that the dialect knows', () => {
    expect(rows.map(([name]) => name).sort()).toEqual([...DRAFT_2020_12.keys()].sort());
    const named = [...rows, ...older].map(([name]) => name);
    expect([...DRAFT_07.keys()].filter((name) => !named.includes(name))).toEqual([]);
  });

  it.each(rows)('%s', (name, schema = '', good = '', bad = '') => {
    const value = JSON.parse(schema) as JsonObject;
    expect(name === 'then' || name === 'else' || JSON.stringify(value).includes(`"${name}"`)).toBe(true);
    check({ properties: { value } }, good, bad);
  });

  it.each(older)('%s of draft-07', (_, schema = '', good = '', bad = '') => {
    const value = JSON.parse(schema) as JsonObject;
    check({ $schema: 'http://json-schema.org/draft-07/schema#', properties: { value } }, good, bad);
  });
});

describe('a format of the guide', () => {
  const rows = rowsOf('format');

  it('is any that the dialect knows', () => {
    expect(rows.map(([name]) => name).sort()).toEqual([...FORMATS.keys()].sort());
  });

  it.each(rows)('%s', (format = '', good = '', bad = '') => {
    check({ properties: { value: { format } } }, good, bad);
  });
});
