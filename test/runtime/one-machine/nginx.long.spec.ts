import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { Agent, request } from 'node:https';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { selfSignedCertificate } from '../../helpers/certificate.ts';
import { eventually } from '../../helpers/client.ts';
import { temporaryFolder } from '../../helpers/folder.ts';
import { freePort } from '../../helpers/free-port.ts';
import {
  admin,
  type Initialized,
  type Serving,
  serveEnvironment,
  startServing,
} from '../../helpers/serve.ts';

const CONFIG = new URL('../../../infra/deploy/one-machine/nginx.conf', import.meta.url);
const MIB = 2 ** 20;

const program = ['nginx', '/usr/sbin/nginx'].find((name) => spawnSync(name, ['-v']).status === 0);
if (program === undefined)
  console.warn('SKIPPED, as there is no nginx: the configuration that is shown for it');

interface Answered {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
}

/** The configuration that is shown, with ports, a certificate and an upstream of this machine. */
describe.skipIf(program === undefined)('nginx as it is shown in front of tributary serve', () => {
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  let serving: Serving | undefined;
  let initialized: Initialized;
  let nginx: ReturnType<typeof spawn> | undefined;
  let ports: { readonly http: number; readonly https: number };
  const certificate = selfSignedCertificate();
  let agent: Agent;

  beforeAll(async () => {
    folder = await temporaryFolder();
    agent = new Agent({ ca: certificate.cert, keepAlive: true, maxSockets: 4, localAddress: '127.0.0.2' });
    const environment = serveEnvironment(join(folder.path, 'data'), {
      TRUST_PROXY: '127.0.0.1',
      TRIBUTARY_HSTS: '365d',
    });
    serving = await startServing(environment);
    initialized = await admin<Initialized>(environment, 'init', '--no-owner');
    ports = { http: await freePort(), https: await freePort() };
    const site = readFileSync(CONFIG, 'utf8');
    const here: readonly (readonly [string, string])[] = [
      ['server 127.0.0.1:8080;', `server ${new URL(serving.url).host};`],
      ['listen 80;', `listen 127.0.0.1:${ports.http};`],
      ['listen 443 ssl http2;', `listen 127.0.0.1:${ports.https} ssl http2;`],
      ['/etc/letsencrypt/live/events.example.com/fullchain.pem', join(folder.path, 'cert.pem')],
      ['/etc/letsencrypt/live/events.example.com/privkey.pem', join(folder.path, 'key.pem')],
    ];
    const adapted = here.reduce((text, [shown, own]) => {
      expect(text).toContain(shown);
      return text.replace(shown, own);
    }, site);
    writeFileSync(join(folder.path, 'cert.pem'), certificate.cert);
    writeFileSync(join(folder.path, 'key.pem'), certificate.key);
    writeFileSync(join(folder.path, 'site.conf'), adapted);
    const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => {
      mkdirSync(join(folder.path, name));
      return `${name}_temp_path ${join(folder.path, name)};`;
    });
    writeFileSync(
      join(folder.path, 'nginx.conf'),
      `daemon off; pid ${join(folder.path, 'nginx.pid')}; error_log stderr warn; ${process.getuid?.() === 0 ? 'user root;' : ''}
       events {} http { access_log off; ${temporary.join(' ')} include ${join(folder.path, 'site.conf')}; }`,
    );
    nginx = spawn(program ?? '', ['-c', join(folder.path, 'nginx.conf'), '-p', folder.path], {
      stdio: 'inherit',
    });
    await eventually(
      () => call('GET', '/livez').catch(() => undefined),
      (answer) => answer?.status === 200,
    );
  });
  afterAll(async () => {
    agent.destroy();
    nginx?.kill('SIGQUIT');
    if (nginx?.exitCode === null) await once(nginx, 'exit');
    await serving?.server.stop();
    await folder.remove();
  });

  const open = (method: string, path: string, headers: Readonly<Record<string, string>>, body?: string) =>
    new Promise<IncomingMessage>((resolve, reject) => {
      const url = `https://localhost:${ports.https}${path}`;
      const options = {
        method,
        agent,
        family: 4,
        servername: 'localhost',
        headers: { host: 'events.example.com', ...headers },
      };
      request(url, options, resolve).once('error', reject).end(body);
    });
  async function call(
    method: string,
    path: string,
    headers: Readonly<Record<string, string>> = {},
    body?: string,
  ): Promise<Answered> {
    const answer = await open(method, path, headers, body);
    let text = '';
    for await (const chunk of answer.setEncoding('utf8')) text += chunk;
    return { status: answer.statusCode ?? 0, headers: answer.headers, text };
  }

  const below = (path: string) => `/api/v1/workspaces/${initialized.workspace.id}${path}`;
  const credentials = (key: string | null) => ({
    authorization: `Bearer ${key}`,
    'x-workspace-id': initialized.workspace.id,
    'content-type': 'application/json',
  });
  const asOperator = () => credentials(initialized.api_key.key);
  async function writeKey(more: object = {}): Promise<string> {
    const wanted = JSON.stringify({ name: 'k', environment: 'production', ...more });
    // On a busy machine the catalog may be 503 for a moment.
    const { text } = await eventually(
      () => call('POST', below('/event-keys'), asOperator(), wanted),
      ({ status }) => status === 201,
    );
    return (JSON.parse(text) as { key: string }).key;
  }
  const track = (key: string, more: object = {}, headers: Readonly<Record<string, string>> = {}) =>
    call(
      'POST',
      below('/events/track'),
      { ...credentials(key), ...headers },
      JSON.stringify({ event: 'E', user_id: 'u', ...more }),
    );

  it('sends browsers to https, for as long as TRIBUTARY_HSTS says', async () => {
    const plain = await fetch(`http://127.0.0.1:${ports.http}/x?y=1`, { redirect: 'manual' });
    expect([plain.status, plain.headers.get('location')]).toEqual([308, 'https://127.0.0.1/x?y=1']);
    const { headers } = await call('GET', '/readyz');
    expect(headers['strict-transport-security']).toContain('max-age=31536000');
  });

  it('passes a live stream on as it comes, with the address of the client and not what the client claims', async () => {
    const key = await writeKey({ collect_ip: true });
    const stream = await open('GET', below('/events/live'), { ...asOperator(), accept: 'text/event-stream' });
    expect(stream.headers['content-type']).toContain('text/event-stream');
    let received = '';
    stream.setEncoding('utf8').on('data', (text: string) => {
      received += text;
    });
    for (const event of ['First', 'Second']) {
      const sentAt = performance.now();
      expect((await track(key, { event }, { 'x-forwarded-for': '203.0.113.9' })).status).toBe(202);
      await eventually(
        () => received,
        (text) => text.includes(`"event":"${event}"`),
      );
      console.log(
        `an event arrived in the live stream ${Math.round(performance.now() - sentAt)} ms after it was sent`,
      );
    }
    expect(stream.complete).toBe(false);
    expect(received).toContain('"ip":"127.0.0.2"');
    expect(received).not.toContain('203.0.113.9');
    stream.destroy();
  });

  it('leaves the limit of bodies to Tributary, whose errors have one form', async () => {
    const key = await writeKey();
    const large = await track(key, { properties: { padding: 'x'.repeat(4.5 * MIB) } });
    expect([large.status, JSON.parse(large.text)]).toEqual([
      413,
      expect.objectContaining({ error: expect.any(String) }),
    ]);
    const batch = Array.from({ length: 60 }, () => ({
      type: 'track',
      event: 'E',
      user_id: 'u',
      properties: { padding: 'x'.repeat(60_000) },
    }));
    const taken = await call('POST', below('/events/batch'), credentials(key), JSON.stringify({ batch }));
    expect(taken.status).toBe(202);
  });

  it('keeps connections: none of 500 requests fails', async () => {
    const key = await writeKey();
    const statuses = new Set<number>();
    const send = async () => {
      for (let i = 0; i < 125; i++) statuses.add((await track(key)).status);
    };
    await Promise.all([send(), send(), send(), send()]);
    expect([...statuses]).toEqual([202]);
  });
});
