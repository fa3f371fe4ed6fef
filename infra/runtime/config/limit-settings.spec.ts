import { readFileSync } from 'node:fs';
import { QUOTA_NAMES, QUOTAS } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { readConfig } from './config.ts';
import { quotasOf } from './limit-settings.ts';
import { SETTINGS } from './settings.ts';

const document = readFileSync(new URL('../../../docs/reference/limits.md', import.meta.url), 'utf8');
/** Without the padding of tables. */
const lines = document.split('\n').map((line) => line.replace(/ {2,}/g, ' '));

describe('each quota', () => {
  it('has a setting, and a default where nothing is set', () => {
    expect(quotasOf(readConfig({}))).toEqual(
      Object.fromEntries(QUOTA_NAMES.map((name) => [name, QUOTAS[name].fallback])),
    );
    const environment = Object.fromEntries(
      QUOTA_NAMES.map((name, n) => [`TRIBUTARY_QUOTA_${name.toUpperCase()}`, String(n)]),
    );
    expect(Object.values(quotasOf(readConfig(environment)))).toEqual(QUOTA_NAMES.map((_, n) => n));
    expect(() => readConfig({ TRIBUTARY_QUOTA_RULES: '-1' })).toThrow('TRIBUTARY_QUOTA_RULES');
  });

  it('allows no more entities in use than in total', () => {
    for (const name of QUOTA_NAMES) {
      const inUse = QUOTA_NAMES.find((other) => `${other}_total` === name);
      if (inUse !== undefined) expect(QUOTAS[inUse].fallback).toBeLessThan(QUOTAS[name].fallback);
    }
  });
});

describe('docs/reference/limits.md', () => {
  it('lists only existing settings, and the default of each limit of rates and streams', () => {
    const known = new Map(Object.values(SETTINGS).map(({ name, fallback }) => [name as string, fallback]));
    for (const [name] of document.matchAll(/TRIBUTARY_[A-Z_]+/g)) expect([...known.keys()]).toContain(name);
    for (const name of ['CHANGE_RATE', 'CHANGE_RATE_PER_ACCOUNT', 'LIVE_STREAMS'].concat(
      ['WORKSPACE', 'ORGANIZATION', 'ACCOUNT'].map((scope) => `LIVE_STREAMS_PER_${scope}`),
    )) {
      const row = lines.find((line) => line.includes(`| \`TRIBUTARY_${name}\` |`));
      expect(row).toContain(`| ${known.get(`TRIBUTARY_${name}`)} |`);
    }
  });
});
