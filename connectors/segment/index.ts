import type { ConnectorContext, ConnectorKind } from '../kind.ts';
import { createSegmentConnector } from './connector.ts';
import type { Definition } from './definition.ts';
import definitions from './definitions.json' with { type: 'json' };
import { describeDestination } from './description.ts';
import { PackHost } from './host.ts';

/** What is made of the pack, read from a file: the pack itself is loaded by its own process, with the first delivery. */
export const DEFINITIONS = definitions as readonly unknown[] as readonly Definition[];

/** One kind for each chosen destination; all made by one catalog share a process. */
export function segmentKinds(): readonly ConnectorKind[] {
  return DEFINITIONS.map((definition) => ({
    description: describeDestination(definition),
    create: (context) => createSegmentConnector(context, definition, hostOf(context)),
  }));
}

const hosts = new WeakMap<object, PackHost>();

/** By the guard, which each catalog has one of. */
function hostOf({ egress, children }: Pick<ConnectorContext, 'egress' | 'children'>): PackHost {
  const host = hosts.get(egress) ?? new PackHost(children);
  hosts.set(egress, host);
  return host;
}
