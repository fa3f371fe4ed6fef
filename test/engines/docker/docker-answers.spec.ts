import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { dockerAnswers } from './docker-answers.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tributary-docker-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

it('hears an engine on its socket', async () => {
  const asked: unknown[] = [];
  const server = createServer((request, response) => {
    asked.push(request.url);
    response.end('OK');
  });
  const socket = join(folder, 'docker.sock');
  await new Promise<void>((resolve) => server.listen(socket, resolve));
  expect(await dockerAnswers(`unix://${socket}`)).toBe(true);
  expect(asked).toEqual(['/_ping']);
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

it('receives nothing where no engine listens', async () => {
  expect(await dockerAnswers(`unix://${join(folder, 'no.sock')}`)).toBe(false);
  expect(await dockerAnswers('tcp://127.0.0.1:1')).toBe(false);
});
