import { once } from 'node:events';
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { temporaryFolder } from '../../helpers/folder.ts';
import { ranHere } from '../../helpers/run-cli.ts';
import { ServerProcess } from '../../helpers/server-process.ts';

describe('tributary dev', () => {
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  beforeAll(async () => {
    folder = await temporaryFolder();
  });
  afterAll(() => folder.remove());

  const dev = async (env: Readonly<Record<string, string>> = {}) => {
    const server = new ServerProcess(['dev'], { TRIBUTARY_DATA_DIR: folder.path, ...env });
    const url = new URL((await server.printed(/ready at (\S+)/))[1] ?? '');
    return { server, url };
  };

  /** A request that never ends; a stopping server waits for it. */
  async function endlessRequest(url: URL) {
    const socket = connect(Number(url.port), url.hostname);
    socket.on('error', () => {}); // it is reset in the end
    await once(socket, 'connect');
    socket.write('GET /livez HTTP/1.1\r\nHost: x\r\n\r\n');
    await once(socket, 'data'); // so the server has the connection
    socket.write('POST /api/v1/workspaces HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{');
    return socket;
  }

  it('refuses a second process on the same data folder, in a sentence, starts also when the workspace it made was archived, with another, and ends at once with code 1 at a second signal', async () => {
    const { server, url } = await dev();
    const second = await ranHere(['dev'], { TRIBUTARY_DATA_DIR: folder.path });
    expect(second.code).toBe(1);
    expect(second.log).toMatch(/tributary dev: .* is used by another running Tributary/);
    await server.printed(/Stop with Ctrl-C/);
    const [, id = ''] = /workspace\s+(\S+)/.exec(server.output) ?? [];
    const [, token = ''] = /ID token\s+(\S+)/.exec(server.output) ?? [];
    const archived = await fetch(new URL(`/api/v1/workspaces/${id}`, url), {
      method: 'DELETE',
      headers: { authorization: `Bearer ${token}`, 'x-workspace-id': id },
    });
    expect(archived.status).toBe(200);
    expect(await server.stop()).toBe(0);
    const { server: next, url: nextUrl } = await dev({ LOG_LEVEL: 'info' });
    await next.printed(/Stop with Ctrl-C/);
    const [, another = ''] = /workspace\s+(\S+)/.exec(next.output) ?? [];
    expect(another).toMatch(/^[0-9a-f-]{36}$/);
    expect(another).not.toBe(id);

    // A second signal while a request delays the shutdown ends the process at once.
    const socket = await endlessRequest(nextUrl);
    next.signal('SIGTERM');
    await next.logged(/"message":"shutting down"/);
    const again = setInterval(() => next.signal('SIGTERM'), 200);
    expect(await next.ended()).toBe(1);
    clearInterval(again);
    expect(next.log).toContain('a second signal');
    socket.destroy();
  });

  it('was killed by the SIGHUP of a terminal that closes: it finishes its work, as at SIGTERM', async () => {
    const { server } = await dev({ LOG_LEVEL: 'info' });
    server.signal('SIGHUP');
    expect(await server.ended()).toBe(0);
    expect(server.log).toMatch(/"signal":"SIGHUP".*"message":"shutting down"/);
  });

  it('ends with code 1 when it cannot finish its requests within the grace', async () => {
    const { server, url } = await dev({ TRIBUTARY_SHUTDOWN_GRACE: '300ms' });
    const socket = await endlessRequest(url);
    expect(await server.stop()).toBe(1);
    expect(server.log).toContain('TRIBUTARY_SHUTDOWN_GRACE is over');
    socket.destroy();
  });
});
