import { CALLBACK_CHANNEL } from './callback-channel.ts';

/**
 * Runs in the window or frame of a sign-in, or of the connection of a destination. The code in the URL is worthless without the
 * verifier: the page that began a sign-in has it, or the sealed `state` of a connection, which only the person who began it can use.
 */
const channel = new BroadcastChannel(CALLBACK_CHANNEL);
channel.postMessage(location.href);
channel.close();
history.replaceState(null, '', location.pathname);
window.close();
