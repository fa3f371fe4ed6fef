export const LANGUAGES = ['typescript', 'python', 'go'] as const;
export type Language = (typeof LANGUAGES)[number];

export const SDKS = ['segment', 'rudderstack', 'browser'] as const;
export type Sdk = (typeof SDKS)[number];
