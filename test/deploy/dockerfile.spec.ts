import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));
const read = (path: string) => readFileSync(join(root, path), 'utf8');

/** The instructions of the Dockerfile, one a line, without comments. */
const instructions = read('infra/deploy/Dockerfile')
  .replace(/^#.*\n/gm, '')
  .replaceAll('\\\n', '')
  .split('\n')
  .filter((line) => line !== '');
const [build = [], , site = [], guide = [], final = []] = stages();
const { workspaces } = JSON.parse(read('package.json')) as { readonly workspaces: readonly string[] };

function stages(): readonly (readonly string[])[] {
  const starts = [...instructions.entries()].filter(([, line]) => line.startsWith('FROM ')).map(([at]) => at);
  return starts.map((start, i) => instructions.slice(start, starts[i + 1]));
}

/** The paths that a stage copies from the context. */
function copied(stage: readonly string[]): readonly string[] {
  return stage
    .filter((line) => line.startsWith('COPY ') && !line.includes('--from='))
    .flatMap((line) => line.split(' ').slice(1, -1));
}

describe('the Dockerfile', () => {
  it('copies files that exist, and that the context has', () => {
    const files = [...copied(build), ...copied(site), ...copied(guide), ...copied(final)];
    expect(files.length).toBeGreaterThan(10);
    expect(files.filter((file) => !existsSync(join(root, file)))).toEqual([]);
    const sent = [...read('.dockerignore').matchAll(/^!(.*)$/gm)].map(([, path = '']) => path);
    const isSent = (file: string) => sent.some((path) => file === path || file.startsWith(`${path}/`));
    expect(files.filter((file) => !isSent(file))).toEqual([]);
  });

  it('installs with the manifest of every workspace, and runs all that are no tests', () => {
    expect(
      copied(build)
        .filter((file) => file.endsWith('/package.json'))
        .sort(),
    ).toEqual(workspaces.map((name) => `${name}/package.json`).sort());
    expect(
      copied(final)
        .filter((file) => file !== 'LICENSE')
        .sort(),
    ).toEqual(workspaces.filter((name) => !['test', 'console', 'docs'].includes(name)).sort());
    expect(final).toContain('COPY --from=console --chown=0:0 /app/console/dist console/dist/');
    expect(final).toContain('COPY --from=docs --chown=0:0 /app/docs/dist docs/dist/');
  });

  it('runs as a numeric user that is not root, by tini, with data in a volume', () => {
    expect(final.filter((line) => /^(USER|VOLUME|ENTRYPOINT|ENV) /.test(line))).toEqual([
      'ENV HOST=0.0.0.0 TRIBUTARY_DATA_DIR=/data HOME=/nonexistent',
      'VOLUME /data',
      'USER 10001:10001',
      'ENTRYPOINT ["tini", "--", "tributary"]',
    ]);
  });
});
