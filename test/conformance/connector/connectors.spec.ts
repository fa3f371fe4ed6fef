import { readdir } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { connectorConformance } from './connector.conformance.ts';
import { type ConnectorHarness, createTestConnectors } from './harness.ts';
import { ndjsonHarness } from './ndjson-harness.ts';
import { webhookHarness } from './webhook-harness.ts';

const HARNESSES: Readonly<Record<string, () => Promise<ConnectorHarness>>> = {
  webhook: webhookHarness,
  ndjson: ndjsonHarness,
};

const connectors = createTestConnectors();

describe('the registry', () => {
  it('has a harness for every connector, and no more', () => {
    expect(Object.keys(HARNESSES).sort()).toEqual([...connectors.descriptions.keys()].sort());
  });

  it('knows a description under its own type', () => {
    for (const [type, description] of connectors.descriptions) expect(description.type).toBe(type);
  });

  it('makes a connector once, and none of an unknown type', () => {
    expect(connectors.connector('webhook')).toBe(connectors.connector('webhook'));
    for (const type of ['', 'telegram', '__proto__', 'constructor']) {
      expect(connectors.connector(type)).toBeUndefined();
    }
  });

  it('refuses an egress range that is none', () => {
    expect(() => createTestConnectors({ egressAllow: ['127.0.0.0/8', 'home'] })).toThrow('"home"');
  });

  it.each([...connectors.descriptions.keys()])('the folder of %s reads like every other', async (type) => {
    const files = await readdir(new URL(`../../../connectors/${type}`, import.meta.url));
    expect(files).toEqual(
      expect.arrayContaining(['settings.ts', 'description.ts', 'connector.ts', 'index.ts']),
    );
  });
});

for (const description of connectors.descriptions.values()) {
  const harness = HARNESSES[description.type];
  if (harness !== undefined) connectorConformance(description, harness);
}
