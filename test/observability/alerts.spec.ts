import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { access, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { parse } from 'yaml';
import { hasPrometheus, promtool, RULES } from '../helpers/prometheus.ts';
import { CASES, promtoolTests } from './alert-cases.ts';

interface Rule {
  readonly alert: string;
  readonly labels: { readonly severity: string };
  readonly annotations: Readonly<Record<'summary' | 'description' | 'runbook_url', string>>;
}

const ROOT = new URL('../../', import.meta.url);
const { groups } = parse(await readFile(RULES, 'utf8')) as { groups: { rules: Rule[] }[] };
const rules = groups.flatMap((group) => group.rules);

describe('the alert rules', () => {
  it.each(rules)(
    '$alert has a severity, a text, and a runbook that exists',
    async ({ labels, annotations }) => {
      expect(['critical', 'warning', 'info']).toContain(labels.severity);
      expect(annotations.summary).not.toBe('');
      expect(annotations.description).toMatch(/\.$/);
      expect(annotations.runbook_url).toMatch(/^docs\/operations\/runbooks\/[a-z-]+\.md$/);
      await access(new URL(annotations.runbook_url, ROOT));
    },
  );

  it.each(rules)('$alert stands in its runbook', async ({ alert, annotations }) => {
    expect(await readFile(new URL(annotations.runbook_url, ROOT), 'utf8')).toContain(`\`${alert}\``);
  });

  it('have a case each', () => {
    expect(CASES.map(({ alert }) => alert).sort()).toEqual(rules.map(({ alert }) => alert).sort());
  });

  it.skipIf(!hasPrometheus())('are valid to Prometheus', () => {
    expect(promtool('check', 'rules', RULES)).toContain(`${rules.length} rules found`);
  });

  it.skipIf(!hasPrometheus())('fire for their fault after their time, and nothing else fires', () => {
    const folder = mkdtempSync(join(tmpdir(), 'tributary-rules-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const file = join(folder, 'tests.yaml');
    writeFileSync(file, JSON.stringify(promtoolTests(RULES)));
    expect(promtool('test', 'rules', file)).toContain('SUCCESS');
  });
});
