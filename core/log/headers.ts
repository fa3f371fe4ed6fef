/** Header names on log entries. */
export const HEADER = {
  /** The catalog offset (decimal) that the writer had applied; readers wait until they have it too. */
  catalogPosition: 'catalog-position',
  messageId: 'message-id',
  workspaceId: 'workspace-id',
  type: 'type',
  environment: 'environment',
  /** W3C trace context, passed on as it came. */
  traceparent: 'traceparent',
  /** `accepted`, `warned`, `omitted` or `rejected`. */
  outcome: 'outcome',
  contractId: 'contract-id',
  contractVersion: 'contract-version',
  /** On `events.slow`: the rules still to be routed, comma-separated ids. */
  rules: 'rules',
  /** On `events.slow`: how often this event's delivery was redriven. */
  redrives: 'redrives',
} as const;
