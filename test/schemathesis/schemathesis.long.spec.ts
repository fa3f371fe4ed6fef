import { spawn } from 'node:child_process';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { inherited } from '../helpers/child.ts';
import { startTributary, type Tributary } from '../helpers/tributary.ts';
import { findSchemathesis } from './installation.ts';

const CASES = 80;
const LIMIT_MS = 30 * 60_000;

const installed = findSchemathesis(process.env);

/** As for the engines: skipped with a warning where it is not installed. */
describe.skipIf(installed === undefined && process.env.CI === undefined)('schemathesis', () => {
  let tributary: Tributary;

  beforeAll(async () => {
    expect(installed, 'schemathesis is not there: bash .ci/schemathesis').toBeDefined();
    tributary = await startTributary({ env: { TRUST_PROXY: '127.0.0.0/8' } });
  });

  afterAll(async () => {
    await tributary?.remove();
  });

  it('finds no server error, and no answer that the description does not know', {
    timeout: LIMIT_MS + 10_000,
  }, async () => {
    const { code, output } = await run(await variablesOf(tributary));
    const cases = Number(/(\d+) generated/.exec(output)?.[1] ?? 0);
    expect(code, output).toBe(0);
    console.log(`schemathesis made ${cases} calls`);
    expect(cases).toBeGreaterThan(10_000);
  });

  async function run(variables: Readonly<Record<string, string>>) {
    if (installed === undefined) throw new Error('schemathesis is not there');
    const args = [
      ...installed.args,
      '--config-file',
      'schemathesis.toml',
      'run',
      `${tributary.url}/openapi.json`,
      '--max-examples',
      String(CASES),
      // Two workers read Python sources at the same time, which fails in Python 3.11.
      '--workers',
      '1',
    ];
    const child = spawn(installed.command, args, {
      cwd: import.meta.dirname,
      env: { ...inherited(), ...installed.env, ...variables, NO_COLOR: '1' },
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: LIMIT_MS,
    });
    let output = '';
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => {
        output += chunk.toString('utf8');
      });
    const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
    return { code, output };
  }
});

/** An organization with a client key, in a workspace of its own. */
async function variablesOf({ owner, workspaceId, writeKey, idToken }: Tributary) {
  const { organization_id } = await owner.get<{ organization_id: string }>(`/workspaces/${workspaceId}`);
  const { org_id } = await owner.get<{ org_id: number }>(`/organizations/${organization_id}`);
  const { key } = await owner.post<{ key: string }>(`/organizations/${organization_id}/client-keys`, {
    name: 'schemathesis',
    scopes: ['profile.read', 'profile.write', 'profile.delete'],
  });
  const spare = await owner.post<{ id: string }>('/workspaces', { name: 'to be archived', organization_id });
  return {
    WORKSPACE_ID: workspaceId,
    SPARE_WORKSPACE_ID: spare.id,
    ORGANIZATION_ID: organization_id,
    ORG_ID: String(org_id),
    ID_TOKEN: idToken,
    WRITE_KEY: writeKey,
    CLIENT_KEY: key,
  };
}
