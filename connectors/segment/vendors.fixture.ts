import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text as textOf } from 'node:stream/consumers';
import { type Connector, NO_METRICS } from '@tributary/core';
import { afterAll, beforeAll } from 'vitest';
import { parseRanges } from '../egress/address-ranges.ts';
import { createEgressGuard, createNameLookups } from '../egress/guard.ts';
import { createSegmentConnector, DEFINITIONS } from './connector.ts';
import type { Definition } from './definitions.ts';
import type { PackHost } from './pack-process.ts';

export interface VendorRequest {
  readonly method: string;
  /** Host, path and query. */
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

export function definitionOf(destination: string): Definition {
  const definition = DEFINITIONS.find((one) => one.destination === destination);
  if (definition === undefined) throw new Error(`no definition of ${destination}`);
  return definition;
}

/** A server in place of all vendors while the tests of a file run, and connectors that send to it. */
export function startVendors(answer: (response: ServerResponse, request: VendorRequest) => void) {
  const server = createServer((request, response) => {
    const { method = '', url = '', headers } = request;
    void textOf(request).then(
      (text) => answer(response, { method, url: url.slice(1), headers, text }),
      () => undefined, // it broke off: its sender has ended
    );
  });
  const allowed = parseRanges(['127.0.0.0/8']);
  const egress = createEgressGuard({ allowed, resolve: createNameLookups(), metrics: NO_METRICS });
  const open: Connector[] = [];
  const vendors = {
    get address(): string {
      return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    },
    /** In place of the URL of a vendor. */
    rewritten: ({ host, pathname, search }: URL) => `${vendors.address}/${host}${pathname}${search}`,
    connect(definition: Definition, host: PackHost, timeoutMs = 60_000): Connector {
      const context = { egress, dataFolder: '/nonexistent', timeoutMs, clock: Date.now };
      const rewriteUrl = (url: string) => vendors.rewritten(new URL(url));
      const connector = createSegmentConnector(context, definition, host, { rewriteUrl });
      open.push(connector);
      return connector;
    },
    /** Closes the connectors. */
    close: () => Promise.all(open.splice(0).map((connector) => connector.close())),
  };
  beforeAll(() => new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve)));
  afterAll(async () => {
    await vendors.close();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return vendors;
}
