import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { get, type IncomingMessage } from 'node:http';
import { Agent, request } from 'node:https';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freePort } from '../../engines/engine-process.ts';
import { selfSignedCertificate } from '../../helpers/certificate.ts';
import { eventually } from '../../helpers/client.ts';
import { temporaryFolder } from '../../helpers/folder.ts';
import {
  admin,
  type Initialized,
  type Serving,
  serveEnvironment,
  startServing,
} from '../../helpers/serve.ts';

const MIB = 2 ** 20;

/** Where a proxy listens and what it finds there. */
interface Site {
  readonly folder: string;
  /** Host and port of Tributary. */
  readonly upstream: string;
  readonly http: number;
  readonly https: number;
  /** PEM files. */
  readonly certificate: string;
  readonly key: string;
}

interface ReverseProxy {
  readonly name: string;
  readonly programs: readonly string[];
  /** Starts the program with the configuration that is shown, adapted to the site. */
  readonly start: (program: string, site: Site) => ChildProcess;
}

/** The file that is shown, with other words in some places. */
function adapted(file: string, changes: readonly (readonly [shown: string, own: string])[]): string {
  const shown = readFileSync(new URL(`../../../infra/deploy/one-machine/${file}`, import.meta.url), 'utf8');
  return changes.reduce((text, [from, to]) => {
    expect(text).toContain(from);
    return text.replace(from, to);
  }, shown);
}

const NGINX: ReverseProxy = {
  name: 'nginx',
  programs: ['nginx', '/usr/sbin/nginx'],
  start(program, { folder, upstream, http, https, certificate, key }) {
    const site = adapted('nginx.conf', [
      ['server 127.0.0.1:8080;', `server ${upstream};`],
      ['listen 80;', `listen 127.0.0.1:${http};`],
      ['listen 443 ssl http2;', `listen 127.0.0.1:${https} ssl http2;`],
      ['/etc/letsencrypt/live/events.example.com/fullchain.pem', certificate],
      ['/etc/letsencrypt/live/events.example.com/privkey.pem', key],
    ]);
    writeFileSync(join(folder, 'site.conf'), site);
    const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => {
      mkdirSync(join(folder, name));
      return `${name}_temp_path ${join(folder, name)};`;
    });
    writeFileSync(
      join(folder, 'nginx.conf'),
      `daemon off; pid ${join(folder, 'nginx.pid')}; error_log stderr warn; ${process.getuid?.() === 0 ? 'user root;' : ''}
       events {} http { access_log off; ${temporary.join(' ')} include ${join(folder, 'site.conf')}; }`,
    );
    return spawn(program, ['-c', join(folder, 'nginx.conf'), '-p', folder], { stdio: 'inherit' });
  },
};

const CADDY: ReverseProxy = {
  name: 'Caddy',
  programs: ['caddy'],
  start(program, { folder, upstream, http, https, certificate, key }) {
    const site = adapted('Caddyfile', [
      ['events.example.com {', `events.example.com {\n\ttls ${certificate} ${key}`],
      ['127.0.0.1:8080', upstream],
    ]);
    const here = `{\n\tadmin off\n\thttp_port ${http}\n\thttps_port ${https}\n\tdefault_bind 127.0.0.1\n}\n`;
    writeFileSync(join(folder, 'Caddyfile'), here + site);
    return spawn(program, ['run', '--config', join(folder, 'Caddyfile'), '--adapter', 'caddyfile'], {
      stdio: ['ignore', 'inherit', 'ignore'],
      env: { ...process.env, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder },
    });
  },
};

interface Answered {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
}

function programOf({ name, programs }: ReverseProxy): string | undefined {
  const found = programs.find((each) => spawnSync(each, ['version']).error === undefined);
  if (found === undefined)
    console.warn(`SKIPPED, as there is no ${name}: the configuration that is shown for it`);
  return found;
}

const SHOWN = [NGINX, CADDY].map((proxy) => ({ ...proxy, program: programOf(proxy) }));

describe.for(SHOWN)('$name as it is shown in front of tributary serve', ({ program, start }) => {
  if (program === undefined) return it.skip('is not installed', () => {});
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  let serving: Serving | undefined;
  let initialized: Initialized;
  let proxy: ChildProcess | undefined;
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
    const [certificateFile, keyFile] = [join(folder.path, 'cert.pem'), join(folder.path, 'key.pem')];
    writeFileSync(certificateFile, certificate.cert);
    writeFileSync(keyFile, certificate.key);
    proxy = start(program, {
      folder: folder.path,
      upstream: new URL(serving.url).host,
      ...ports,
      certificate: certificateFile,
      key: keyFile,
    });
    await eventually(
      () => call('GET', '/livez').catch(() => undefined),
      (answer) => answer?.status === 200,
    );
  });
  afterAll(async () => {
    agent.destroy();
    proxy?.kill('SIGQUIT');
    if (proxy?.exitCode === null && proxy.signalCode === null) await once(proxy, 'exit');
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
    const plain = await new Promise<IncomingMessage>((resolve, reject) =>
      get(`http://127.0.0.1:${ports.http}/x?y=1`, { headers: { host: 'events.example.com' } }, resolve).once(
        'error',
        reject,
      ),
    );
    plain.resume();
    expect([plain.statusCode, plain.headers.location]).toEqual([308, 'https://events.example.com/x?y=1']);
    const { headers } = await call('GET', '/readyz');
    expect(headers['strict-transport-security']).toContain('max-age=31536000');
  });

  it('passes a live stream on as it arrives, with the address of the client and not a claimed one', async () => {
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
