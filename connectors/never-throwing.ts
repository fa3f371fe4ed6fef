import { type Connector, type DeliveryResult, type Logger, messageOf } from '@tributary/core';

/** Holds every connector to its promise: what it did not foresee is logged, and the deliveries are tried again. */
export function neverThrowing(type: string, connector: Connector, logger: Logger): Connector {
  let sizeToldOf = false;
  return {
    batchSize(destination) {
      try {
        return connector.batchSize(destination);
      } catch (error) {
        // Asked for every delivery: a line each would drown the log.
        if (!sizeToldOf) {
          sizeToldOf = true;
          logger.error(
            { connector: type, destination_id: destination.id, error: messageOf(error) },
            'a connector failed to say its batch size',
          );
        }
        return 1;
      }
    },
    close: () => connector.close(),
    async deliver(destination, deliveries, options) {
      try {
        return await connector.deliver(destination, deliveries, options);
      } catch (error) {
        logger.error(
          { connector: type, destination_id: destination.id, error: messageOf(error) },
          'a connector failed unexpectedly',
        );
        return deliveries.map((): DeliveryResult => ({ outcome: 'retry', reason: 'unexpected failure' }));
      }
    },
  };
}
