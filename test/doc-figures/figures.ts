import { readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { createConnectors } from '@tributary/connectors';
import { NO_LOGGER, NO_METRICS } from '@tributary/core';
import { computeAnswers } from '../demo/answers.ts';
import { readFlights } from '../demo/flights.ts';
import { FIGURES, figureIn } from './bench.ts';
import type { Figures } from './fill.ts';

/** The documents whose claims are filled in. */
export const DOCUMENTS = ['README.md', 'docs/comparison.md'];

const ROOT = new URL('../../', import.meta.url);

export const documentUrl = (path: string) => new URL(path, ROOT);
const documentAt = (path: string) => readFileSync(documentUrl(path), 'utf8');

/** Everything that documents may claim: figures of `docs/bench.md`, and lists made from the code. */
export function figures(): Figures {
  const bench = documentAt('docs/bench.md');
  const measured = Object.entries(FIGURES).map(([name, figure]) => [name, figureIn(bench, name, figure)]);
  return { ...Object.fromEntries(measured), ...destinations(), ...sdks(), ...demo(), ...operations() };
}

/** Counts that `npm run demo` sends and must find. */
function demo(): Figures {
  const events = readFlights();
  const { violating, late, passing, profiles } = computeAnswers(events);
  const counts = {
    'demo-events': events.length,
    'demo-violating': violating,
    'demo-late': late,
    'demo-passing': passing,
    'demo-profiles': profiles.size,
  };
  return Object.fromEntries(
    Object.entries(counts).map(([name, count]) => [name, count.toLocaleString('en')]),
  );
}

function operations(): Figures {
  const { version } = JSON.parse(documentAt('package.json')) as { version: string };
  return { version, runbooks: String(readdirSync(documentUrl('docs/operations/runbooks')).length) };
}

/** The kinds of the connector registry. */
function destinations(): Figures {
  const { descriptions } = createConnectors({
    egressAllow: [],
    dataFolder: tmpdir(),
    clock: Date.now,
    logger: NO_LOGGER,
    metrics: NO_METRICS,
  });
  const kinds = [...descriptions.values()];
  const pack = kinds.filter(({ type }) => type.startsWith('segment-'));
  const own = kinds.filter(({ type }) => !type.startsWith('segment-'));
  return {
    destinations: String(kinds.length),
    'destinations-own': String(own.length),
    'destinations-own-names': own.map(({ title }) => title).join(', '),
    'destinations-pack': String(pack.length),
  };
}

/** The SDKs that `test/sdks` runs unmodified, with the version of each. */
function sdks(): Figures {
  const sources = readdirSync(documentUrl('test/sdks'), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .map((file) => documentAt(`test/sdks/${file}`))
    .join('\n');
  const { devDependencies } = JSON.parse(documentAt('test/package.json')) as {
    readonly devDependencies: Readonly<Record<string, string>>;
  };
  const npm = Object.entries(devDependencies).filter(
    ([name]) => /analytics|rudder/.test(name) && new RegExp(`['"]${name}['"]`).test(sources),
  );
  const python = [...sources.matchAll(/'([\w-]+)==([\d.]+)'/g)].map(([, name = '', version = '']) => [
    name,
    version,
  ]);
  const go = [...documentAt('test/sdks/senders/go/go.mod').matchAll(/^require (\S+) v([\d.]+)$/gm)].map(
    ([, name = '', version = '']) => [name, version],
  );
  const named = (list: readonly (readonly string[])[]) =>
    list.map(([name, version]) => `\`${name}\` ${version}`).join(', ');
  return {
    'sdks-npm': named(npm),
    'sdks-python': named(python),
    'sdks-go': named(go),
    'sdks-count': String(npm.length + python.length + go.length),
  };
}
