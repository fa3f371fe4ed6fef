import { readFileSync } from 'node:fs';
import { NO_LOGGER, NO_METRICS, type TransformationContext, transformationInput } from '@tributary/core';
import { openIsolatedVmSandbox } from '@tributary/infra';
import { afterAll, describe, expect, it } from 'vitest';
import { program } from '../suite/transformations.ts';

/* Runs the examples of docs/reference/transformation-language.md. */

const text = readFileSync(
  new URL('../../../../docs/reference/transformation-language.md', import.meta.url),
  'utf8',
);
const TEST_TIME = '2026-01-01T00:00:00.000Z';
const CONTEXT: TransformationContext = {
  workspace_id: 'w',
  rule_id: null,
  rule_name: null,
  environment: 'production',
  contract: { outcome: 'accepted', id: null, version: null },
};

interface Example {
  readonly source: string;
  context: TransformationContext;
  event: { readonly received_at?: string };
  expected: { readonly output?: unknown; readonly failure?: unknown };
}

/** Each source with the text up to the next. */
function examplesOf(guide: string): readonly Example[] {
  const examples: Example[] = [];
  for (const [, kind, body = ''] of guide.matchAll(/```\w+ (\w+)\n([\s\S]*?)```/g)) {
    const last = examples.at(-1);
    if (kind === 'transformation') examples.push({ source: body, context: CONTEXT, event: {}, expected: {} });
    else if (last === undefined) throw new Error('what comes of nothing');
    else if (kind === 'context') last.context = JSON.parse(body) as TransformationContext;
    else if (kind === 'event') last.event = JSON.parse(body) as Example['event'];
    else if (kind === 'output') last.expected = { output: JSON.parse(body) };
    else if (kind === 'failure') last.expected = { failure: JSON.parse(body) };
    else throw new Error(`a block of kind ${kind}`);
  }
  return examples;
}

describe('an example of the guide to transformations', () => {
  const sandbox = openIsolatedVmSandbox({ processes: 1, metrics: NO_METRICS, logger: NO_LOGGER });
  afterAll(() => sandbox.close());
  const examples = examplesOf(text);

  it('exists, with the stated result', () => {
    expect(examples).toHaveLength(7);
    for (const { expected } of examples) expect(Object.keys(expected)).toHaveLength(1);
  });

  it.each(examples)('$source', async ({ source, context, event, expected }) => {
    const identity = { message_id: 'm', received_at: event.received_at ?? TEST_TIME };
    const input = transformationInput(JSON.stringify(event), context, identity);
    for (const [result] of [
      await sandbox.run(program(source), [input]),
      await sandbox.run(program(source), [input, input]),
    ]) {
      if (result?.ok)
        expect({ output: result.outputs.map((output) => JSON.parse(output)) }).toEqual(expected);
      else expect({ failure: result }).toMatchObject(expected);
    }
  });
});
