/** What `dev` sets where the environment says nothing: a person's own machine is not a place to protect from itself. */
export const DEV_DEFAULTS = {
  TRIBUTARY_DEV_ISSUER: '1',
  TRIBUTARY_EGRESS_ALLOW: '127.0.0.0/8',
  LOG_LEVEL: 'warn',
  TRIBUTARY_DRAIN: '0s',
} as const;
