import {
  type Connector,
  type ConnectorCatalog,
  type ConnectorDestination,
  type Destination,
  type Logger,
  messageOf,
} from '@tributary/core';

/** Where a request goes: the destination with unsealed settings, and its connector. */
export interface Target {
  readonly kind: 'target';
  readonly type: string;
  readonly connector: Connector;
  readonly destination: ConnectorDestination;
}

/** Why no request can be made. `permanent`: its deliveries are dead; else they are postponed. */
export type NoTarget =
  | { readonly kind: 'paused' }
  | { readonly kind: 'unreachable'; readonly reason: string; readonly permanent: boolean };

/** Why a deleted or disabled destination gets no deliveries. */
export function disabledBecause(destination: Destination | undefined): string {
  return destination === undefined ? 'the destination was deleted' : 'the destination is disabled';
}

/** Why a paused destination gets none for now. */
export function pausedBecause({ paused_because }: Pick<Destination, 'paused_because'>): string {
  const reason = 'the destination is paused';
  return paused_because == null ? reason : `${reason}: it answered 410 Gone`;
}

export interface ResolverDependencies {
  readonly connectors: ConnectorCatalog;
  /** The destination with its secrets opened. Throws when no key opens them. */
  unseal(destination: Destination): ConnectorDestination;
  /** The destination as it is now; undefined when it was deleted. */
  current(id: string): Destination | undefined;
  readonly logger: Logger;
}

/** Resolves one destination for each request, by its settings at that moment. */
export class DestinationResolver {
  readonly #dependencies: ResolverDependencies;
  readonly id: string;
  #version: number | undefined;
  /** The destination in `#version`. Kept, so that secrets are opened, and a failure is logged, once. */
  #unsealed: ConnectorDestination | undefined;

  constructor(dependencies: ResolverDependencies, id: string) {
    this.#dependencies = dependencies;
    this.id = id;
  }

  resolve(): Target | NoTarget {
    const { connectors, current } = this.#dependencies;
    const known = current(this.id);
    if (known?.enabled !== true) return unreachable(disabledBecause(known), true);
    if (known.paused === true) return { kind: 'paused' };
    const connector = connectors.connector(known.type);
    if (connector === undefined) return unreachable(`no connector of type ${known.type}`, true);
    const destination = this.#unseal(known);
    if (destination === undefined) return unreachable('the settings cannot be unsealed', false);
    return { kind: 'target', type: known.type, connector, destination };
  }

  #unseal(destination: Destination): ConnectorDestination | undefined {
    const { id, version } = destination;
    if (this.#version === version) return this.#unsealed;
    const { unseal, logger } = this.#dependencies;
    this.#version = version;
    this.#unsealed = undefined;
    try {
      this.#unsealed = unseal(destination);
    } catch (error) {
      const about = { destination: id, version, error: messageOf(error) };
      logger.error(about, 'the settings of a destination cannot be unsealed');
    }
    return this.#unsealed;
  }
}

function unreachable(reason: string, permanent: boolean): NoTarget {
  return { kind: 'unreachable', reason, permanent };
}
