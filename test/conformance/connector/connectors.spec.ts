import { readdir, readFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { createTestConnectors } from './suite/harness.ts';

const connectors = createTestConnectors();
const descriptions = [...connectors.descriptions.values()];
const warehouses = descriptions.flatMap(({ type, isWarehouse }) => (isWarehouse === true ? [type] : []));
/** The connectors of the Segment pack share a folder, have their own formats, and are covered by its spec. */
const own = descriptions.flatMap(({ type, isWarehouse }) =>
  type.startsWith('segment-') || isWarehouse === true ? [] : [type],
);

describe('the registry', () => {
  it.each(own)('%s has a spec that runs the conformance suite', async (type) => {
    const spec = await readFile(new URL(`./${type}/conformance.spec.ts`, import.meta.url), 'utf8');
    expect(spec).toContain(`connectorConformance('${type}', `);
  });

  it.each(warehouses)('%s has a spec that runs the suite of warehouses', async (type) => {
    const folder = new URL(`../warehouse/${type.replace('warehouse-', '')}/`, import.meta.url);
    // Engines that are slow to install are part of the long form.
    const name = (await readdir(folder)).find((file) => /^conformance(?:[.]long)?[.]spec[.]ts$/.test(file));
    const spec = await readFile(new URL(name ?? 'conformance.spec.ts', folder), 'utf8');
    expect(spec).toContain('warehouseConformance(');
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

  it('refuses an invalid egress range', () => {
    expect(() => createTestConnectors({ egressAllow: ['127.0.0.0/8', 'home'] })).toThrow('"home"');
  });

  it.each([...own, 'segment'])('the folder of %s has its connector', async (type) => {
    expect(await readdir(new URL(`../../../connectors/${type}`, import.meta.url))).toContain('connector.ts');
  });
});
