import {
  type Connector,
  type ConnectorDestination,
  type DeliveryResult,
  type Logger,
  messageOf,
} from '@tributary/core';

const UNEXPECTED = 'unexpected failure';

/** Holds every connector to its promise: what it did not foresee is logged, and the deliveries are tried again. */
export function neverThrowing(type: string, connector: Connector, logger: Logger): Connector {
  let limitsToldOf = false;
  const tell = ({ id }: ConnectorDestination, error: unknown) => {
    const about = { connector: type, destination_id: id, error: messageOf(error) };
    logger.error(about, 'a connector failed unexpectedly');
  };
  return {
    batchLimits(destination) {
      try {
        return connector.batchLimits(destination);
      } catch (error) {
        // Asked for every delivery: a line each would drown the log.
        if (!limitsToldOf) {
          limitsToldOf = true;
          logger.error(
            { connector: type, destination_id: destination.id, error: messageOf(error) },
            'a connector failed to say what a batch may hold',
          );
        }
        return { events: 1 };
      }
    },
    close: () => connector.close(),
    async test(destination, options) {
      try {
        return await connector.test(destination, options);
      } catch (error) {
        tell(destination, error);
        return { ok: false, reason: UNEXPECTED };
      }
    },
    async deliver(destination, deliveries, options) {
      try {
        return await connector.deliver(destination, deliveries, options);
      } catch (error) {
        tell(destination, error);
        return deliveries.map((): DeliveryResult => ({ outcome: 'retry', reason: UNEXPECTED }));
      }
    },
  };
}
