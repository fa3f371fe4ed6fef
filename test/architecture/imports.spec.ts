import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));
const folders: string[] = [];

interface Report {
  readonly summary: {
    readonly violations: readonly { readonly rule: { readonly name: string }; readonly from: string }[];
  };
}

/** What the import rules say of a small tree of files. */
function violationsIn(files: Readonly<Record<string, string>>): readonly string[] {
  const folder = mkdtempSync(join(tmpdir(), 'tributary-imports-'));
  folders.push(folder);
  for (const [file, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    writeFileSync(join(folder, file), content);
  }
  return cruise(
    folder,
    Object.keys(files).filter((file) => file.endsWith('.ts')),
  );
}

function cruise(folder: string, paths: readonly string[]): readonly string[] {
  const cruiser = join(root, 'node_modules/dependency-cruiser/bin/dependency-cruise.mjs');
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
    // It exits with the number of violations; the report is on standard output all the same.
    output = String((error as { stdout?: unknown }).stdout);
  }
  const report = JSON.parse(output) as Report;
  return report.summary.violations.map(({ rule, from }) => `${rule.name}: ${from}`);
}

afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

const exported = 'export const thing = 1;\n';
const imports = (path: string) => `import { thing } from '${path}';\nexport const other = thing;\n`;

describe('the import rules', () => {
  it('hold in this tree', () => {
    const packages = ['core', 'gateway', 'processors', 'connectors', 'infra', 'test'];
    expect(cruise(root, packages)).toEqual([]);
  }, 120_000);

  it.each([
    ['core-imports-nothing-of-ours', 'core/a.ts', '../gateway/index.ts', 'gateway/index.ts'],
    ['gateway-imports-core-alone', 'gateway/a.ts', '../processors/index.ts', 'processors/index.ts'],
    ['processors-imports-core-alone', 'processors/a.ts', '../connectors/index.ts', 'connectors/index.ts'],
    ['connectors-imports-core-alone', 'connectors/a.ts', '../infra/index.ts', 'infra/index.ts'],
    [
      'an-adapter-imports-core-and-its-own-port',
      'infra/adapters/history/sqlite/a.ts',
      '../../event-log/b.ts',
      'infra/adapters/event-log/b.ts',
    ],
    ['only-runtime-wires', 'infra/adapters/history/a.ts', '../../runtime/b.ts', 'infra/runtime/b.ts'],
    ['nothing-imports-tests', 'infra/runtime/a.ts', '../../test/b.ts', 'test/b.ts'],
    ['packages-meet-at-their-index', 'test/a.ts', '../core/log/b.ts', 'core/log/b.ts'],
  ])('%s', (rule, from, specifier, to) => {
    expect(violationsIn({ [from]: imports(specifier), [to]: exported })).toContain(`${rule}: ${from}`);
  });

  it('core-does-no-io', () => {
    const file = "import { readFileSync } from 'node:fs';\nexport const read = readFileSync;\n";
    expect(violationsIn({ 'core/a.ts': file })).toContain('core-does-no-io: core/a.ts');
  });

  it('no-cycles', () => {
    const files = {
      'core/a.ts': imports('./b.ts'),
      'core/b.ts': "import { other } from './a.ts';\nexport const thing = other;\n",
    };
    expect(violationsIn(files)).toContain('no-cycles: core/a.ts');
  });

  it('dependencies-are-declared', () => {
    const files = {
      'core/a.ts': imports('undeclared'),
      'core/package.json': '{ "name": "core", "type": "module" }',
      'node_modules/undeclared/package.json':
        '{ "name": "undeclared", "type": "module", "exports": "./index.js" }',
      'node_modules/undeclared/index.js': exported,
    };
    expect(violationsIn(files)).toContain('dependencies-are-declared: core/a.ts');
  });

  it('everything-resolves', () => {
    expect(violationsIn({ 'core/a.ts': imports('./missing.ts') })).toContain(
      'everything-resolves: core/a.ts',
    );
  });
});
