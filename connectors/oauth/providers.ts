import type { JsonObject } from '@tributary/core';

/** A client that is registered at a service. */
export interface OAuthClient {
  readonly id: string;
  readonly secret: string;
}

/** By the name of the service in `PROVIDERS`. */
export type OAuthClients = Readonly<Record<string, OAuthClient>>;

interface Endpoints {
  /** `{client_id}` stands for that of the client, where it is no parameter. */
  readonly authorize: string;
  readonly token: string;
  /** Absent where no document of the service has one. */
  readonly revoke?: string;
}

interface ConnectedDestination {
  readonly scopes: readonly string[];
  /** Settings that users do not state: the answer of the service decides them, or they are of another kind of grant. */
  readonly hidden?: readonly string[];
  /** The variable in the pack's environment that names the client. */
  readonly clientIdIn?: string;
}

/** A service that is asked for access by OAuth 2, and how its requests and answers differ from the standard. */
export interface Provider {
  readonly title: string;
  /** Read on 30 November 2026. */
  readonly documents: readonly string[];
  /** Where a client is registered. */
  readonly register: string;
  endpoints(settings: JsonObject): Endpoints;
  /** Further parameters of the page that asks a person. */
  readonly authorize?: Readonly<Record<string, string>>;
  /** Further parameters of a refresh. */
  readonly refresh?: Readonly<Record<string, string>>;
  readonly names?: { readonly clientId: string; readonly clientSecret: string; readonly code: string };
  /** Default: `form`. */
  readonly body?: 'json';
  /** Default: the secret is a parameter. */
  readonly clientProof?: 'basic';
  readonly pkce?: true;
  /** The token of a code is exchanged for one that lasts for weeks and is not refreshed. */
  readonly hasLongToken?: true;
  /** The member of an answer with the tokens. Default: the answer itself. */
  readonly member?: string;
  /** Whether the answer to a refresh refuses the refresh token for good. Default: `invalid_grant`. */
  isRefusal?(status: number, answer: JsonObject): boolean;
  /** The settings that the answer decides; undefined where it has none that is valid. */
  settingsOf?(answer: JsonObject): JsonObject | undefined;
  /** By folder of the Segment pack. */
  readonly destinations: Readonly<Record<string, ConnectedDestination>>;
}

const at = (endpoints: Endpoints) => () => endpoints;

export const isInvalidGrant = (_status: number, { error }: JsonObject) => error === 'invalid_grant';

/** Login with Amazon, by the API of an advertiser's region. */
const AMAZON: Readonly<Record<string, Endpoints>> = {
  'https://advertising-api-eu.amazon.com': {
    authorize: 'https://eu.account.amazon.com/ap/oa',
    token: 'https://api.amazon.co.uk/auth/o2/token',
  },
  'https://advertising-api-fe.amazon.com': {
    authorize: 'https://apac.account.amazon.com/ap/oa',
    token: 'https://api.amazon.co.jp/auth/o2/token',
  },
};
const AMAZON_NA: Endpoints = {
  authorize: 'https://www.amazon.com/ap/oa',
  token: 'https://api.amazon.com/auth/o2/token',
};

function salesforceEndpoints({ isSandbox }: JsonObject): Endpoints {
  const base = `https://${isSandbox === true ? 'test' : 'login'}.salesforce.com/services/oauth2`;
  return { authorize: `${base}/authorize`, token: `${base}/token`, revoke: `${base}/revoke` };
}

/** Where an organization of Salesforce is. */
const INSTANCE = /^https:\/\/(?:[a-z0-9-]+\.)+(?:salesforce|force)\.com$/;

/**
 * The services that destinations of the Segment pack are connected with. The pack knows the token URLs of some, and no page
 * that asks a person.
 */
export const PROVIDERS: Readonly<Record<string, Provider>> = {
  amazon: {
    title: 'Amazon Ads',
    documents: [
      'https://advertising.amazon.com/API/docs/en-us/guides/account-management/authorization/overview',
      'https://docs.aws.amazon.com/solutions/latest/amazon-marketing-cloud-uploader-from-aws/oauth-flow-in-amazon-ads-api.html',
    ],
    register: 'https://developer.amazon.com/loginwithamazon/console/site/lwa/overview.html',
    endpoints: ({ region }) => AMAZON[String(region)] ?? AMAZON_NA,
    destinations: {
      'amazon-amc': {
        scopes: ['advertising::campaign_management', 'advertising::audiences'],
        clientIdIn: 'ACTIONS_AMAZON_AMC_CLIENT_ID',
      },
      'amazon-conversions-api': {
        scopes: ['advertising::campaign_management'],
        clientIdIn: 'ACTIONS_AMAZON_CONVERSIONS_API_CLIENT_ID',
      },
    },
  },
  blackbaud: {
    title: 'Blackbaud',
    documents: ['https://developer.blackbaud.com/skyapi/support/faq'],
    register: 'https://developer.blackbaud.com/apps/',
    endpoints: at({
      authorize: 'https://app.blackbaud.com/oauth/authorize',
      token: 'https://oauth2.sky.blackbaud.com/token',
    }),
    refresh: { preserve_refresh_token: 'true' },
    pkce: true,
    destinations: { 'blackbaud-raisers-edge-nxt': { scopes: [] } },
  },
  facebook: {
    title: 'Meta',
    documents: [
      'https://developers.facebook.com/documentation/facebook-login/guides/advanced/manual-flow',
      'https://developers.facebook.com/docs/facebook-login/guides/access-tokens/get-long-lived',
    ],
    register: 'https://developers.facebook.com/apps/',
    endpoints: at({
      authorize: 'https://www.facebook.com/v23.0/dialog/oauth',
      token: 'https://graph.facebook.com/v23.0/oauth/access_token',
    }),
    hasLongToken: true,
    destinations: { 'facebook-custom-audiences': { scopes: ['ads_management'] } },
  },
  google: {
    title: 'Google',
    documents: ['https://developers.google.com/identity/protocols/oauth2/web-server'],
    register: 'https://console.cloud.google.com/apis/credentials',
    endpoints: at({
      authorize: 'https://accounts.google.com/o/oauth2/v2/auth',
      token: 'https://oauth2.googleapis.com/token',
      revoke: 'https://oauth2.googleapis.com/revoke',
    }),
    // Without the prompt, an account that consented before brings no refresh token.
    authorize: { access_type: 'offline', prompt: 'consent' },
    pkce: true,
    destinations: {
      'first-party-dv360': { scopes: ['https://www.googleapis.com/auth/display-video'] },
      'google-campaign-manager-360': { scopes: ['https://www.googleapis.com/auth/ddmconversions'] },
      'google-enhanced-conversions': { scopes: ['https://www.googleapis.com/auth/adwords'] },
      'google-sheets': { scopes: ['https://www.googleapis.com/auth/spreadsheets'] },
    },
  },
  linkedin: {
    title: 'LinkedIn',
    documents: [
      'https://learn.microsoft.com/en-us/linkedin/shared/authentication/authorization-code-flow',
      'https://learn.microsoft.com/en-us/linkedin/shared/authentication/programmatic-refresh-tokens',
      'https://learn.microsoft.com/en-us/linkedin/marketing/conversions/conversions-workflow',
    ],
    register: 'https://www.linkedin.com/developers/apps',
    endpoints: at({
      authorize: 'https://www.linkedin.com/oauth/v2/authorization',
      token: 'https://www.linkedin.com/oauth/v2/accessToken',
    }),
    destinations: {
      'linkedin-audiences': { scopes: ['rw_dmp_segments', 'r_ads'] },
      'linkedin-conversions': { scopes: ['rw_conversions', 'r_ads'] },
    },
  },
  microsoft: {
    title: 'Microsoft Advertising',
    documents: [
      'https://learn.microsoft.com/en-us/advertising/guides/authentication-oauth-get-tokens',
      'https://github.com/MicrosoftDocs/Advertising/blob/main/advertising/bingads-13/guides/authentication-oauth-quick-start.md',
    ],
    register: 'https://entra.microsoft.com/#view/Microsoft_AAD_RegisteredApps',
    endpoints: at({
      authorize: 'https://login.microsoftonline.com/common/oauth2/v2.0/authorize',
      token: 'https://login.microsoftonline.com/common/oauth2/v2.0/token',
    }),
    pkce: true,
    destinations: {
      'ms-bing-ads-audiences': { scopes: ['https://ads.microsoft.com/msads.manage', 'offline_access'] },
    },
  },
  reddit: {
    title: 'Reddit',
    documents: ['https://github.com/reddit-archive/reddit/wiki/oauth2'],
    register: 'https://www.reddit.com/prefs/apps',
    endpoints: at({
      authorize: 'https://www.reddit.com/api/v1/authorize',
      token: 'https://www.reddit.com/api/v1/access_token',
      revoke: 'https://www.reddit.com/api/v1/revoke_token',
    }),
    authorize: { duration: 'permanent' },
    clientProof: 'basic',
    // A refresh token that was revoked is answered by `{ "message": "Bad Request", "error": 400 }`.
    isRefusal: (status, answer) => isInvalidGrant(status, answer) || answer.error === 400,
    destinations: { 'reddit-audiences': { scopes: ['adsread', 'adsedit'] } },
  },
  salesforce: {
    title: 'Salesforce',
    documents: [
      'https://help.salesforce.com/s/articleView?id=sf.remoteaccess_oauth_web_server_flow.htm',
      'https://developer.salesforce.com/blogs/2020/11/setting-up-salesforce-oauth-for-pardot-api-authentication',
    ],
    register: 'https://help.salesforce.com/s/articleView?id=sf.connected_app_create.htm',
    endpoints: salesforceEndpoints,
    pkce: true,
    // Concurrent refreshes are refused in the words of an invalid token.
    isRefusal: (status, answer) =>
      isInvalidGrant(status, answer) && !/already being processed/.test(String(answer.error_description)),
    settingsOf: ({ instance_url: instanceUrl }) =>
      typeof instanceUrl === 'string' && INSTANCE.test(instanceUrl) ? { instanceUrl } : undefined,
    destinations: {
      'actions-pardot': { scopes: ['pardot_api', 'api', 'refresh_token'] },
      salesforce: {
        scopes: ['api', 'refresh_token'],
        hidden: ['instanceUrl', 'username', 'auth_password', 'security_token'],
      },
    },
  },
  snap: {
    title: 'Snapchat',
    documents: ['https://developers.snap.com/api/marketing-api/Ads-API/authentication'],
    register: 'https://business.snapchat.com/',
    endpoints: at({
      authorize: 'https://accounts.snapchat.com/login/oauth2/authorize',
      token: 'https://accounts.snapchat.com/login/oauth2/access_token',
    }),
    destinations: {
      'snap-audiences': { scopes: ['snapchat-marketing-api'] },
      'snap-conversions-api': { scopes: ['snapchat-offline-conversions-api'] },
    },
  },
  tiktok: {
    title: 'TikTok for Business',
    documents: [
      'https://business-api.tiktok.com/portal/docs?id=1738373141733378',
      'https://github.com/tiktok/tiktok-business-api-sdk/blob/main/js_sdk/docs/AuthenticationApi.md',
    ],
    register: 'https://business-api.tiktok.com/portal/apps',
    endpoints: at({
      authorize: 'https://business-api.tiktok.com/portal/auth',
      token: 'https://business-api.tiktok.com/open_api/v1.3/oauth2/access_token/',
    }),
    names: { clientId: 'app_id', clientSecret: 'secret', code: 'auth_code' },
    body: 'json',
    member: 'data',
    settingsOf: ({ advertiser_ids: ids }) => (Array.isArray(ids) ? { advertiser_ids: ids } : {}),
    destinations: { 'tiktok-audiences': { scopes: [], hidden: ['advertiser_ids'] } },
  },
  yotpo: {
    title: 'Yotpo',
    documents: [
      'https://develop.yotpo.com/docs/authenticating',
      'https://develop.yotpo.com/reference/generate-a-token',
    ],
    register: 'https://develop.yotpo.com/docs/getting-started',
    endpoints: at({
      authorize: 'https://integrations-center.yotpo.com/app/#/install/applications/{client_id}',
      token: 'https://developers.yotpo.com/v2/oauth/token',
    }),
    body: 'json',
    destinations: { yotpo: { scopes: [] } },
  },
};

/** The service of a folder of the pack; undefined where it connects to none. */
export function providerOf(
  folder: string,
): (ConnectedDestination & { readonly provider: string }) | undefined {
  for (const [provider, { destinations }] of Object.entries(PROVIDERS)) {
    const destination = destinations[folder];
    if (destination !== undefined) return { provider, ...destination };
  }
  return undefined;
}
