import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { STAGE_NAMES } from '@tributary/processors';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { setUp } from '../stages/harness.ts';
import { CHART } from './kubernetes/chart.ts';
import { settings } from './kubernetes/product-settings.ts';

const read = (path: string) => readFileSync(join(CHART, path), 'utf8');
const GUIDE = join(CHART, '../../../../docs/operations/kubernetes.md');
const EXAMPLES = readdirSync(join(CHART, 'examples')).map((file) => file.replace(/[.]yaml$/, ''));

interface Property {
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Property>>;
  readonly items?: Property;
}

describe('the chart', () => {
  it('has the version of the packages', () => {
    const { version } = JSON.parse(readFileSync(join(CHART, '../../../../package.json'), 'utf8')) as {
      readonly version: string;
    };
    expect(parse(read('Chart.yaml'))).toMatchObject({ version, appVersion: version });
  });

  it('names no setting that the product does not know', async () => {
    const { names, secrets, files } = await settings();
    const known = new Set([...names, ...secrets.map((name) => `${name}_FILE`), ...files]);
    const texts = [
      ...['values.yaml', 'values.schema.json', 'README.md'],
      ...readdirSync(join(CHART, 'templates')).map((file) => `templates/${file}`),
      ...EXAMPLES.map((name) => `examples/${name}.yaml`),
    ].map(read);
    const guide = readFileSync(GUIDE, 'utf8');
    const named = [...texts, guide].flatMap(
      (text) =>
        text.match(/\b(TRIBUTARY|KAFKA|ELASTICSEARCH|REDIS|SCHEMA_REGISTRY|TRUST|LOG)_[A-Z_]*[A-Z]\b/g) ?? [],
    );
    expect(named.length).toBeGreaterThan(40);
    expect([...new Set(named)].filter((name) => !known.has(name)).sort()).toEqual([]);
  });

  it('takes secrets from files alone, and all of them', async () => {
    const { secrets, files } = await settings();
    const { properties } = JSON.parse(read('values.schema.json')) as {
      readonly properties: {
        readonly secretFiles: { readonly propertyNames: { readonly enum: readonly string[] } };
      };
    };
    const refused = /"tributary[.]secrets" -}}\n([\s\S]*?)\{\{- end/.exec(
      read('templates/_helpers.tpl'),
    )?.[1];
    expect(parse(refused ?? '')).toEqual([...secrets].sort());
    expect(properties.secretFiles.propertyNames.enum).toEqual([...secrets, ...files].sort());
  });

  it('knows the stages, and scales them by topics that they read', () => {
    const table = parse(
      /"tributary[.]stages" -}}\n([\s\S]*?)\{\{- end/.exec(read('templates/_stages.tpl'))?.[1] ?? '',
    );
    expect(Object.keys(table).sort()).toEqual([...STAGE_NAMES].sort());
    for (const { name, reads } of setUp().stages) {
      const sources = reads.map(({ topic }) => topic);
      expect(sources).toEqual(expect.arrayContaining(table[name]));
      // Their records wait for their time, or are in one partition, or are few.
      const unscaled =
        /^(deliveries[.]retry|catalog$|mail|replays|loads$|profiles[.]operations$|funnel[.]counts$)/;
      expect(sources.filter((topic) => !table[name].includes(topic) && !unscaled.test(topic))).toEqual([]);
    }
  });

  it('has each stage in a group, in the example and in the guide', () => {
    const guide = readFileSync(GUIDE, 'utf8');
    for (const text of [read('examples/split.yaml'), guide]) {
      const [, groups = ''] = text.split('\nstageGroups:');
      const stages = [...groups.matchAll(/ stages: \[(.*)\]/g)].flatMap(([, names = '']) =>
        names.split(', '),
      );
      expect(stages.sort()).toEqual([...STAGE_NAMES].sort());
    }
  });

  it('describes each of its values in its schema', () => {
    const missing: string[] = [];
    const visit = (path: string, { description, properties = {} }: Property) => {
      const inner = Object.entries(properties);
      if (description === undefined && inner.length === 0) missing.push(path);
      if (description === undefined) for (const [name, each] of inner) visit(`${path}.${name}`, each);
    };
    const { properties = {} } = JSON.parse(read('values.schema.json')) as Property;
    for (const [name, property] of Object.entries(properties)) if (name !== 'global') visit(name, property);
    expect(missing).toEqual([]);
  });
});
