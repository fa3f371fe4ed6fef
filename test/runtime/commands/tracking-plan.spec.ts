import { writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { temporaryFolder } from '../../helpers/folder.ts';
import { onLoopback } from '../../helpers/on-loopback.ts';
import { ranHere } from '../../helpers/run-cli.ts';

const KEY = { TRIBUTARY_API_KEY: 'key' };

interface Asked {
  readonly method: string | undefined;
  readonly url: string | undefined;
  readonly authorization: string | undefined;
  readonly type: string | undefined;
}

/** A server that gives these answers, one after the other, and keeps what it was asked. */
async function answering(
  ...answers: readonly { status: number; headers?: Record<string, string>; body: string }[]
) {
  const asked: Asked[] = [];
  const rest = [...answers];
  const server = createServer((request: IncomingMessage, response) => {
    const { method, url, headers } = request;
    asked.push({ method, url, authorization: headers.authorization, type: headers['content-type'] });
    const { status = 500, headers: own = {}, body = '' } = rest.shift() ?? {};
    request
      .resume()
      .on('end', () => response.writeHead(status, { 'content-type': 'application/json', ...own }).end(body));
  });
  const { url, close } = await onLoopback(server);
  onTestFinished(close);
  return { asked, at: ['--url', url, '--workspace', 'w'] };
}

async function fileOf(text: string): Promise<string> {
  const folder = await temporaryFolder();
  onTestFinished(() => folder.remove());
  const file = join(folder.path, 'plan');
  await writeFile(file, text);
  return file;
}

const RESULT = JSON.stringify({
  created: 1,
  updated: 1,
  unchanged: 2,
  archived: 0,
  changes: [
    { action: 'created', event_type: 'track', event_name: 'A', fields: [] },
    { action: 'updated', event_type: 'identify', event_name: '', fields: ['description'] },
    { action: 'unchanged', event_type: 'page', event_name: 'B', fields: [] },
  ],
  notes: [{ path: '/rules/3', message: 'is left out' }],
});

describe('tributary plan', () => {
  it('sends a document, waits where the server refuses for a while, and prints the changes', async () => {
    const busy = { status: 429, headers: { 'retry-after': '0' }, body: '{"error":"too many requests"}' };
    const { asked, at } = await answering(busy, { status: 200, body: RESULT });
    const file = await fileOf('Event Name,Property Name\n');
    const ran = await ranHere(
      ['plan', 'import', file, '--archive-missing', '--label', 'team:a b', ...at],
      KEY,
    );
    expect(ran).toEqual({
      code: 0,
      log: '',
      output:
        'created track "A"\nupdated identify: description\nnote: /rules/3 is left out\n1 created, 1 updated, 0 archived, 2 unchanged\n',
    });
    const call = {
      method: 'PUT',
      url: '/api/v1/workspaces/w/tracking-plan?label=team%3Aa+b&missing=archive',
      authorization: 'Bearer key',
      type: 'text/csv',
    };
    expect(asked).toEqual([call, call]);
  });

  it('ends with 1 where a document differs, and stores nothing', async () => {
    const { asked, at } = await answering({ status: 200, body: RESULT });
    expect(await ranHere(['plan', 'diff', await fileOf('{}'), ...at], KEY)).toMatchObject({ code: 1 });
    expect(asked).toMatchObject([
      { url: '/api/v1/workspaces/w/tracking-plan?dry_run=true', type: 'application/json' },
    ]);
  });

  it('names the faults that the server found, each in a line', async () => {
    const body = JSON.stringify({
      error: 'invalid request',
      details: [{ path: 'line 3', message: 'is wrong' }],
    });
    const { at } = await answering({ status: 400, body });
    expect(await ranHere(['plan', 'import', await fileOf('a'), ...at], KEY)).toEqual({
      code: 1,
      output: '',
      log: 'tributary plan import: the server answered 400: invalid request\n  line 3: is wrong\n',
    });
  });

  it.each<[string, readonly string[], Readonly<Record<string, string>>, number, string]>([
    [
      'without a workspace',
      ['plan', 'export'],
      KEY,
      2,
      'tributary plan export: --workspace names the workspace\n',
    ],
    ['without a key', ['plan', 'export', '--workspace', 'w'], {}, 2, 'TRIBUTARY_API_KEY is needed'],
    [
      'with an address that is none',
      ['plan', 'export', '--workspace', 'w', '--url', 'x'],
      KEY,
      2,
      '--url is the address',
    ],
    [
      'where no server answers',
      ['plan', 'export', '--workspace', 'w', '--url', 'http://127.0.0.1:65000'],
      KEY,
      1,
      'tributary plan export: http://127.0.0.1:65000 does not answer',
    ],
    [
      'of a file that is missing',
      ['plan', 'import', '/nowhere', '--workspace', 'w'],
      KEY,
      1,
      '/nowhere cannot be read',
    ],
  ])('states in one line the fault of %s', async (_, command, environment, code, text) => {
    const ran = await ranHere(command, environment);
    expect(ran).toMatchObject({ code, output: '', log: expect.stringContaining(text) });
    expect(ran.log.trim().split('\n')).toHaveLength(1);
  });
});

describe('tributary codegen', () => {
  it('reads a document of any form, without a server', async () => {
    const csv = await fileOf('Event Name,Property Name,Data Type\nOrder Placed,id,string\n');
    const segment = await fileOf(
      '{"rules":[{"key":"Order Placed","type":"TRACK","jsonSchema":{"properties":{"id":{}}}}]}',
    );
    const odd = await fileOf(
      '{"rules":[{"key":"Order Placed","type":"TRACK","jsonSchema":{"properties":{"id":{"type":"any"}}}},{"key":"x","type":"ANY"}]}',
    );
    for (const plan of [csv, segment, odd]) {
      const { code, output } = await ranHere(['codegen', '--language', 'typescript', '--plan', plan], {});
      expect([code, output]).toEqual([0, expect.stringContaining('trackOrderPlaced(message: Message')]);
    }
  });

  it.each<[string, string, readonly string[], number, string]>([
    ['a document that is none', '[]', [], 1, 'the plan is neither a JSON object nor CSV'],
    [
      'a schema that is none',
      '{"contracts":[{"event_type":"track","schema_definition":{"type":"x"}}]}',
      [],
      1,
      'the plan cannot be used:\n  /contracts/0: /type',
    ],
    [
      'an SDK that the language lacks',
      '{}',
      ['--sdk', 'browser'],
      2,
      '--sdk browser is for --language typescript',
    ],
    [
      'a package that Go refuses',
      '{}',
      ['--package', 'go'],
      2,
      '--package is a name of small letters and digits',
    ],
  ])('refuses %s', async (_, text, options, code, message) => {
    const command = ['codegen', '--language', 'go', '--plan', await fileOf(text), ...options];
    expect(await ranHere(command, {})).toMatchObject({
      code,
      output: '',
      log: expect.stringContaining(message),
    });
  });
});
