import { type AddressInfo, connect } from 'node:net';
import { createServer, type Server } from 'node:tls';
import { type History, NO_LOGGER, Unavailable } from '@tributary/core';
import { openElasticsearchHistory } from '@tributary/infra';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { selfSignedCertificate } from '../../../helpers/certificate.ts';
import { removeIndices } from '../../../helpers/elasticsearch.ts';
import { engines, freshPrefix } from '../../../helpers/engines.ts';
import { entry, RETENTION_MS, WORKSPACE_ID } from '../suite/harness.ts';

const plain = engines()?.elasticsearchUrl;
const { key, cert } = selfSignedCertificate();
const prefix = freshPrefix();
const fronts: Server[] = [];

/** A TLS front for the node of the run, which has no TLS, at an address of this machine. */
async function startFront(address: string): Promise<number> {
  const front = createServer({ key, cert }, (secured) => {
    const { hostname, port } = new URL(plain ?? '');
    const node = connect(Number(port), hostname);
    secured.pipe(node).pipe(secured);
    for (const end of [secured, node]) end.on('error', () => end.destroy());
  });
  await new Promise<void>((resolve) => front.listen(0, address, resolve));
  fronts.push(front);
  return (front.address() as AddressInfo).port;
}

async function open(url: string, ca?: string): Promise<History> {
  const history = await openElasticsearchHistory({
    access: { urls: [url], ...(ca === undefined ? {} : { ca }) },
    prefix,
    clock: Date.now,
    retentionMs: RETENTION_MS,
    logger: NO_LOGGER,
    timeoutMs: 5_000,
  });
  onTestFinished(() => history.close());
  return history;
}

describe.skipIf(plain === undefined)('Elasticsearch over TLS', () => {
  let [byName, byAddress, byOtherName] = ['', '', ''];
  beforeAll(async () => {
    const port = await startFront('127.0.0.1');
    [byName, byAddress] = [`https://localhost:${port}`, `https://127.0.0.1:${port}`];
    byOtherName = `https://127.0.0.2:${await startFront('127.0.0.2')}`;
  });
  afterAll(async () => {
    for (const front of fronts) front.close();
    await removeIndices(plain ?? '', prefix);
  });

  it('is written and read where the authority is the one that is named', async () => {
    const history = await open(byAddress, cert);
    await history.put([entry(1, { id: 'over-tls', at: Date.now() })]);
    const query = { kind: 'delivery', workspaceId: WORKSPACE_ID, limit: 10 } as const;
    const other = await open(byName, cert);
    for (const one of [history, other])
      await expect
        .poll(async () => (await one.list(query)).entries.map(({ id }) => id))
        .toEqual(['over-tls']);
  });

  it.each([
    ['an authority that nobody knows', () => byAddress, undefined],
    ['another authority', () => byAddress, selfSignedCertificate().cert],
    ['a certificate of another name', () => byOtherName, cert],
  ])('is not spoken to with %s', async (_, url, ca) => {
    const history = await open(url(), ca);
    await expect(history.put([entry(2, { at: Date.now() })])).rejects.toMatchObject({
      constructor: Unavailable,
      message: expect.stringMatching(/certificate|altnames/),
    });
  });
});
