import { Agent, type Dispatcher } from 'undici';

/*
 * Loaded before a server of a test: its HTTPS requests go to the fake services at `TEST_SERVICES_URL` instead, through the
 * egress guard as all do. `x-service-host` names the host that they were for.
 */

const services = process.env.TEST_SERVICES_URL;
const { dispatch } = Agent.prototype;

Agent.prototype.dispatch = function (
  this: Agent,
  options: Agent.DispatchOptions,
  handler: Dispatcher.DispatchHandler,
): boolean {
  const { protocol, hostname } = new URL(String(options.origin));
  if (protocol !== 'https:' || services === undefined) return dispatch.call(this, options, handler);
  const headers = [...((options.headers ?? []) as string[]), 'x-service-host', hostname];
  return dispatch.call(this, { ...options, origin: services, headers }, handler);
};
