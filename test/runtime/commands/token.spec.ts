import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Client } from '../../helpers/client.ts';
import { startEmbedded } from '../../helpers/embedded.ts';
import { temporaryFolder } from '../../helpers/folder.ts';
import { ranHere } from '../../helpers/run-cli.ts';
import type { Tributary } from '../../helpers/running-tributary.ts';

describe('tributary token', () => {
  let tributary: Tributary;
  let other: Awaited<ReturnType<typeof temporaryFolder>>;
  beforeAll(async () => {
    tributary = await startEmbedded((await temporaryFolder()).path, {});
    other = await temporaryFolder();
  });
  afterAll(async () => {
    await tributary.remove();
    await other.remove();
  });

  const ofFolder = (folder: string) => ({ TRIBUTARY_DATA_DIR: folder });
  const workspacesOf = async (token: string) =>
    new Client(tributary.url, token.trim()).get<readonly { id: string; role: string }[]>('/workspaces');

  it('is of the person of --email', async () => {
    const { output } = await ranHere(['token', '--email', 'new@example.com'], ofFolder(tributary.folder));
    expect(await workspacesOf(output)).toEqual([]);
    const me = await new Client(tributary.url, output.trim()).get<{ email: string }>('/me');
    expect(me.email).toBe('new@example.com');
  });

  it('made a new key in a folder that no server uses: it is refused, with the folder', async () => {
    const folder = join(other.path, 'data');
    const { code, output, log } = await ranHere(['token'], ofFolder(folder));
    expect({ code, output }).toEqual({ code: 1, output: '' });
    expect(log).toMatch(
      new RegExp(`^tributary token: no development server has run on the data folder ${folder}: .*\n$`),
    );
    expect(existsSync(folder)).toBe(false);
  });

  it('makes the key of a folder where that is wanted, and is refused for a server that has another', async () => {
    const made = await ranHere(['token', '--create-key'], ofFolder(other.path));
    expect({ code: made.code, log: made.log }).toEqual({ code: 0, log: '' });
    expect(readdirSync(other.path)).toEqual(['dev-issuer.json']);
    await expect(workspacesOf(made.output)).rejects.toThrow('401');

    const { port } = new URL(tributary.url);
    const { code, output, log } = await ranHere(['token'], { ...ofFolder(other.path), PORT: port });
    expect({ code, output }).toEqual({ code: 1, output: '' });
    expect(log).toMatch(
      new RegExp(
        `^tributary token: the server at ${tributary.url} does not take tokens of the data folder ${other.path}: .*\n$`,
      ),
    );
  });
});
