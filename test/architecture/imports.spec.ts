import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));

interface Report {
  readonly summary: {
    readonly violations: readonly { readonly rule: { readonly name: string }; readonly from: string }[];
  };
}

function cruise(folder: string, paths: readonly string[]): readonly string[] {
  const cruiser = join(root, 'node_modules/dependency-cruiser/bin/dependency-cruiser.mjs');
  const config = join(root, '.dependency-cruiser.mjs');
  let output: string;
  try {
    output = execFileSync(
      process.execPath,
      [cruiser, '--config', config, '--output-type', 'json', ...paths],
      {
        cwd: folder,
        encoding: 'utf8',
        maxBuffer: 64 * 1024 * 1024,
        stdio: ['ignore', 'pipe', 'ignore'],
      },
    );
  } catch (error) {
    // Its exit code is the number of violations; the report is on standard output even so.
    output = String((error as { stdout?: unknown }).stdout);
  }
  const report = JSON.parse(output) as Report;
  return report.summary.violations.map(({ rule, from }) => `${rule.name}: ${from}`);
}

const exported = 'export const thing = 1;\n';
const imports = (path: string) => `import { thing } from '${path}';\nexport const other = thing;\n`;

/** Files that each break one rule, with their content. */
const VIOLATIONS: readonly (readonly [rule: string, file: string, content: string])[] = [
  ['core-imports-nothing-of-ours', 'core/a.ts', imports('../gateway/index.ts')],
  [
    'core-does-no-io',
    'core/reads.ts',
    "import { readFileSync } from 'node:fs';\nexport const read = readFileSync;\n",
  ],
  ['gateway-imports-core-alone', 'gateway/a.ts', imports('../processors/index.ts')],
  ['processors-imports-core-alone', 'processors/a.ts', imports('../connectors/index.ts')],
  ['connectors-imports-core-alone', 'connectors/a.ts', imports('../infra/index.ts')],
  [
    'an-adapter-imports-core-and-its-own-port',
    'infra/adapters/history/sqlite/a.ts',
    imports('../../event-log/b.ts'),
  ],
  [
    'a-sandbox-worker-loads-no-core',
    'infra/adapters/sandbox/isolated-vm/worker/a.ts',
    imports('../../../../../core/index.ts'),
  ],
  [
    'a-thread-that-writes-loads-no-index',
    'infra/adapters/sqlite/database.ts',
    imports('../../../core/index.ts'),
  ],
  [
    'what-every-role-loads-leaves-the-api-out',
    'infra/runtime/server/http-server.ts',
    imports('../../../gateway/index.ts'),
  ],
  ['only-runtime-wires', 'infra/adapters/history/a.ts', imports('../../runtime/b.ts')],
  ['nothing-imports-tools', 'infra/runtime/uses-a-tool.ts', imports('../tools/b.ts')],
  ['the-command-line-loads-a-tool-when-it-runs', 'infra/runtime/cli.ts', imports('../tools/b.ts')],
  ['console-imports-nothing-of-ours', 'console/src/a.tsx', imports('../../core/index.ts')],
  ['nothing-imports-the-console', 'infra/runtime/shows.ts', imports('../../console/src/b.ts')],
  ['nothing-imports-tests', 'infra/runtime/a.ts', imports('../../test/b.ts')],
  ['nothing-imports-tests', 'gateway/uses-a-fixture.ts', imports('./b.fixture.ts')],
  ['specs-beside-the-code-import-no-room-of-tests', 'infra/a.spec.ts', imports('../test/b.ts')],
  ['packages-meet-at-their-index', 'test/a.ts', imports('../core/log/b.ts')],
  ['no-cycles', 'core/one.ts', imports('./two.ts')],
  ['dependencies-are-declared', 'core/undeclared.ts', imports('undeclared')],
  ['everything-resolves', 'core/misses.ts', imports('./missing.ts')],
];

/** The modules that the files above import. */
const IMPORTED: Readonly<Record<string, string>> = {
  'gateway/index.ts': exported,
  'processors/index.ts': exported,
  'connectors/index.ts': exported,
  'infra/index.ts': exported,
  'infra/adapters/event-log/b.ts': exported,
  'infra/runtime/b.ts': exported,
  'infra/tools/b.ts': exported,
  'console/src/b.ts': exported,
  'test/b.ts': exported,
  'gateway/b.fixture.ts': exported,
  'core/index.ts': exported,
  'core/log/b.ts': exported,
  'core/two.ts': "import { other } from './one.ts';\nexport const thing = other;\n",
  'core/package.json': '{ "name": "core", "type": "module" }',
  'node_modules/undeclared/package.json':
    '{ "name": "undeclared", "type": "module", "exports": "./index.js" }',
  'node_modules/undeclared/index.js': exported,
};

describe('the import rules', () => {
  it('hold in this tree', () => {
    const packages = ['core', 'gateway', 'processors', 'connectors', 'infra', 'console/src', 'test'];
    expect(cruise(root, packages)).toEqual([]);
  });

  describe('find what breaks them', () => {
    let folder: string;
    let found: readonly string[];
    beforeAll(() => {
      folder = mkdtempSync(join(tmpdir(), 'tributary-imports-'));
      const broken = VIOLATIONS.map(([, file, content]) => [file, content] as const);
      for (const [file, content] of [...Object.entries(IMPORTED), ...broken]) {
        mkdirSync(dirname(join(folder, file)), { recursive: true });
        writeFileSync(join(folder, file), content);
      }
      found = cruise(folder, ['core', 'gateway', 'processors', 'connectors', 'infra', 'console', 'test']);
    });
    afterAll(() => rmSync(folder, { recursive: true, force: true }));

    it.each(VIOLATIONS)('%s', (rule, file) => {
      expect(found).toContain(`${rule}: ${file}`);
    });

    it('each in a file of its own, and in none of the imported ones', () => {
      const files = new Set(found.map((violation) => violation.split(': ')[1]));
      files.delete('core/two.ts'); // is part of the cycle too
      expect([...files].sort()).toEqual(VIOLATIONS.map(([, file]) => file).sort());
    });
  });
});
