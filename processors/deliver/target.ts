import {
  type Connector,
  type ConnectorCatalog,
  type ConnectorDestination,
  type Destination,
  type Logger,
  messageOf,
} from '@tributary/core';

/** Where a call goes, with unsealed settings, and who knows how. */
export interface Target {
  readonly type: string;
  readonly connector: Connector;
  readonly destination: ConnectorDestination;
}

/** Why no call can be made. */
export interface Unreachable {
  readonly unreachable: string;
  /** False where it may be reached later. */
  readonly forGood: boolean;
}

/** Why there are no deliveries to a destination that is not there or not enabled. */
export function closedBecause(destination: Destination | undefined): string {
  return destination === undefined ? 'the destination is gone' : 'the destination is disabled';
}

/** Why there are none for now to one that is paused. */
export const PAUSED = 'the destination is paused';

/** The same with what made processors pause it. */
export function pausedBecause({ paused_because }: Pick<Destination, 'paused_because'>): string {
  return paused_because == null ? PAUSED : `${PAUSED}: it answered 410 Gone`;
}

export interface TargetsDependencies {
  readonly connectors: ConnectorCatalog;
  /** The destination with its secrets opened. Throws when no key opens them. */
  unseal(destination: Destination): ConnectorDestination;
  /** The destination as it is now; undefined when it is gone. */
  current(id: string): Destination | undefined;
  readonly logger: Logger;
}

/** Looks up, for each call, where one destination is now: what waited goes by what was changed meanwhile. */
export class Targets {
  readonly #dependencies: TargetsDependencies;
  readonly id: string;
  #version: number | undefined;
  /** Of that version; kept, so that secrets are opened, and a fault is told, once. */
  #unsealed: ConnectorDestination | undefined;

  constructor(dependencies: TargetsDependencies, id: string) {
    this.#dependencies = dependencies;
    this.id = id;
  }

  now(): Target | Unreachable {
    const { connectors, current } = this.#dependencies;
    const known = current(this.id);
    if (known?.enabled !== true) return { unreachable: closedBecause(known), forGood: true };
    if (known.paused === true) return { unreachable: PAUSED, forGood: false };
    const connector = connectors.connector(known.type);
    if (connector === undefined) return { unreachable: `no connector of type ${known.type}`, forGood: true };
    const destination = this.#unseal(known);
    if (destination === undefined) return { unreachable: 'the settings cannot be unsealed', forGood: false };
    return { type: known.type, connector, destination };
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
